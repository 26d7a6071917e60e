"""A fault of a domU, its connection or its host fails only the claim that meets it; the others go on."""

from __future__ import annotations

import os
import subprocess
from typing import TYPE_CHECKING

import pytest
from faulty_claims import LONG, found, nothing_left, words, write

if TYPE_CHECKING:
    from pathlib import Path

    from labs_here import SharedLabs

pytestmark = pytest.mark.patient

ON_XEN = """
import psutil
import time


def test_panic(judged, domus):
    domu = domus.start(init="small", memory="256 MiB")
    judged(domu, lambda: domu.run(["sh", "-c", "echo c >/proc/sysrq-trigger"], timeout=60))


def test_agent(judged, domus):
    domu = domus.start(init="small", memory="256 MiB")
    judged(domu, lambda: domu.run(["sh", "-c", "kill -STOP $PPID"], timeout=20))


def test_clock(judged, domus):
    domu = domus.start(init="small", memory="256 MiB")
    judged(domu, lambda: domu.run(["date", "-s", f"@{int(time.time()) + 3600}"]))


def test_cut(judged, domus):
    domu = domus.start(init="small", memory="256 MiB")

    def cut():
        ways = [each for each in psutil.Process().children(recursive=True) if each.name() == "ssh"]
        assert ways
        for each in ways:
            each.kill()

    judged(domu, cut)


def test_last(judged, domus):
    judged(domus.start(init="small", memory="256 MiB"))
"""
ON_KVM = """
import psutil


def test_taken(judged, guests_on):
    'The guest has it open, and goes on; those after it have none.'
    guests = guests_on("kvm")
    guest = guests.start(init="small", memory="256 MiB")
    judged(guest, lambda: guests.host.run(["mv", "/dev/kvm", "/dev/away"]))


def test_none(claim, guests_on):
    guests = guests_on("kvm")
    start = lambda: guests.start(init="small", memory="256 MiB").startup_time
    claim("fault.test_none").holds(start)


def test_given_back(judged, guests_on):
    guests = guests_on("kvm")
    guests.host.run(["mv", "/dev/away", "/dev/kvm"])
    judged(guests.start(init="small", memory="256 MiB"))


def test_killed(judged, guests_on, vperf_run):
    def kill():
        for each in psutil.process_iter(["name", "environ"]):
            mark = (each.info["environ"] or {}).get("VPERF_RUN")
            if each.info["name"] == "vperf-lab-kvm" and mark == vperf_run.id:
                each.kill()
                each.wait(10)
                return
        raise AssertionError("this run has no host")

    judged(guests_on("kvm").start(init="small", memory="256 MiB"), kill)


def test_last(judged, guests_on):
    judged(guests_on("kvm").start(init="small", memory="256 MiB"))
"""


def verdicts_of(tests: str, lab: str, project: Path, runs: Path) -> dict[str, tuple[str, str]]:
    """The verdicts of the claims on machines of a lab."""
    write(project, tests)
    environment = {**os.environ, "VPERF_RUNS_DIR": str(runs)}
    environment.pop("VPERF_REQUIRE", None)
    done = subprocess.run(
        words(f"--vperf-lab={lab}", "--start-timeout=300 s"),
        cwd=project,
        env=environment,
        capture_output=True,
        text=True,
        timeout=LONG,
        check=False,
    )
    print(done.stdout)  # shown where the test fails
    assert done.returncode == 1
    return found(project)


def test_each_fault_fails_only_its_own_claim_on_domus(
    shared_labs: SharedLabs, tmp_path: Path
) -> None:
    shared_labs.get("xen")
    said = verdicts_of(ON_XEN, "xen", tmp_path, shared_labs.folder)
    assert {name: verdict for name, (verdict, _) in said.items()} == {
        "panic": "inconclusive",
        "agent": "inconclusive",
        "clock": "holds",
        "cut": "inconclusive",
        "last": "holds",
    }, said
    assert "is gone" in said["panic"][1]
    assert "TimedOut: " in said["agent"][1]
    assert "CannotConnect: " in said["cut"][1]


def test_each_fault_fails_only_its_own_claim_on_a_kvm_host(
    shared_labs: SharedLabs, runs_dir: Path, tmp_path: Path
) -> None:
    """The run's own host is killed at the end, and started again for the last claim."""
    said = verdicts_of(ON_KVM, "kvm", tmp_path, runs_dir)
    assert {name: verdict for name, (verdict, _) in said.items()} == {
        "taken": "holds",
        "none": "not measured",
        "given_back": "holds",
        "killed": "inconclusive",
        "last": "holds",
    }, said
    assert "kvm" in said["none"][1].lower()
    assert "CannotConnect: " in said["killed"][1]
    nothing_left(runs_dir)
