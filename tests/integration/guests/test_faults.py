"""A fault during a claim on a guest fails only that claim; later claims are measured, and nothing stays behind."""

from __future__ import annotations

import os
import subprocess
import time
from pathlib import Path
from typing import TYPE_CHECKING

import psutil
import pytest
from faulty_claims import LONG, found, nothing_left, words, write

from pytest_vperf.machine import compiler
from pytest_vperf.targets.guest import probe
from pytest_vperf.targets.libvirt import connect

if TYPE_CHECKING:
    from collections.abc import Callable

    from pytest_vperf.machine.preflight import Readiness

pytestmark = pytest.mark.patient

SMALL = """
import psutil
import pytest
import sys
import time


@pytest.fixture
def small(guests_on):
    return lambda: guests_on("tcg").start(init="small", memory="256 MiB")


"""
FAULTS = """
def test_daemon(judged, small, vperf_run):
    def kill():
        for each in psutil.process_iter(["name", "environ"]):
            environment = each.info["environ"] or {}
            if each.info["name"] == "libvirtd" and environment.get("VPERF_RUN") == vperf_run.id:
                each.kill()
                each.wait(10)

    judged(small(), kill)


def test_after_daemon(judged, small):
    judged(small())


def test_panic(judged, small):
    guest = small()
    judged(guest, lambda: guest.run(["sh", "-c", "echo c >/proc/sysrq-trigger"], timeout=60))


def test_agent(judged, small):
    guest = small()
    judged(guest, lambda: guest.run(["sh", "-c", "kill -STOP $PPID"], timeout=60))


def test_full(judged, small):
    guest = small()
    fill = "mkdir -p /full && mount -t tmpfs -o size=1m none /full && cat /dev/zero >/full/up; true"
    write = "mkdir -p /full; cat /proc/version >/full/more"
    judged(guest, lambda: guest.run(["sh", "-c", fill]), ["sh", "-c", write])


def test_clock(judged, small):
    guest = small()
    judged(guest, lambda: guest.run(["date", "-s", f"@{int(time.time()) + 3600}"]))


def test_last(judged, small):
    judged(small())
"""
STEPPED_CLOCK = Path(__file__).parents[1] / "machines" / "stepped_clock.c"


@pytest.fixture
def project(
    tmp_path: Path,
    runs_dir: Path,
    monkeypatch: pytest.MonkeyPatch,
    require: Callable[[str, Readiness], None],
) -> Path:
    """A user's project; each run has its own libvirt daemon."""
    require("guest", probe.needs())
    if not connect.check().usable:
        pytest.skip("no libvirt daemon of a run's own can be started here")
    monkeypatch.delenv("VPERF_REQUIRE", raising=False)
    return tmp_path


def test_each_fault_fails_only_its_own_claim(project: Path, runs_dir: Path) -> None:
    write(project, SMALL + FAULTS)
    done = subprocess.run(
        words(), cwd=project, capture_output=True, text=True, timeout=LONG, check=False
    )
    verdicts = found(project)
    said = {name: why for name, (_, why) in verdicts.items()}
    assert {name: verdict for name, (verdict, _) in verdicts.items()} == {
        "daemon": "inconclusive",
        "after_daemon": "holds",
        "panic": "inconclusive",
        "agent": "inconclusive",
        "full": "inconclusive",
        "clock": "holds",
        "last": "holds",
    }, done.stdout
    assert "CannotConnect: " in said["daemon"]
    assert "CannotConnect: guest tcg is gone" in said["panic"]
    assert "TimedOut: guest tcg: its agent d" in said["agent"]
    assert "No space left on device" in said["full"]
    assert done.returncode == 1
    nothing_left(runs_dir)


def test_a_run_that_is_stopped_for_half_a_minute_goes_on(project: Path, runs_dir: Path) -> None:
    """The run, its daemon and the machine all stop, as when a laptop sleeps or a VM is migrated."""
    write(
        project,
        SMALL + "def test_long(judged, small): judged(small())\n"
        "def test_last(judged, small): judged(small())\n",
    )
    with (project / "said").open("wb") as said:
        run = subprocess.Popen(words(), cwd=project, stdout=said, stderr=said)
    try:
        deadline = time.monotonic() + LONG / 3
        sampled = project / "sampled"
        # Each sample writes a line when it begins: two are done, and the third has begun.
        while not sampled.exists() or len(sampled.read_text().splitlines()) < 3:
            assert run.poll() is None
            assert time.monotonic() < deadline
            time.sleep(0.1)
        tree = [psutil.Process(run.pid), *psutil.Process(run.pid).children(recursive=True)]
        for each in tree:
            each.suspend()
        time.sleep(30)
        for each in reversed(tree):
            each.resume()
        run.wait(LONG)
    finally:
        if run.poll() is None:
            run.kill()
            run.wait()
    verdicts = found(project)
    assert verdicts["last"][0] == "holds"
    assert verdicts["long"][0] in ("holds", "inconclusive"), verdicts
    nothing_left(runs_dir)


@pytest.mark.parametrize("step", [3600, -86400])
def test_a_hosts_clock_that_is_stepped_changes_nothing(
    project: Path, runs_dir: Path, step: int, require: Callable[[str, Readiness], None]
) -> None:
    """The wall clock of the run, its daemon and its QEMU; monotonic clocks go on, as in a real step."""
    require("guest", compiler.check())
    shim, clock = project / "clock.so", project / "clock"
    subprocess.run(["cc", "-shared", "-fPIC", "-O", "-o", shim, STEPPED_CLOCK], check=True)
    clock.write_bytes(bytes(8))
    write(
        project,
        SMALL
        + f"""
def step():
    with open("clock", "r+b", buffering=0) as clock:
        clock.write(({step}).to_bytes(8, sys.byteorder, signed=True))


def test_step(judged, small):
    before = time.time() - time.monotonic()
    judged(small(), step)
    assert abs(time.time() - time.monotonic() - before - {step}) < 60  # it was stepped


def test_last(judged, small):
    judged(small())
""",
    )
    done = subprocess.run(
        words(),
        cwd=project,
        env={**os.environ, "LD_PRELOAD": str(shim), "STEPPED_CLOCK": str(clock)},
        capture_output=True,
        text=True,
        timeout=LONG,
        check=False,
    )
    assert {name: verdict for name, (verdict, _) in found(project).items()} == {
        "step": "holds",
        "last": "holds",
    }, done.stdout
    assert done.returncode == 0, done.stdout
    nothing_left(runs_dir)
