"""A run over several machines, by ssh and by Slurm; what becomes of it when they, or the run itself, end."""

from __future__ import annotations

import json
import os
import random
import re
import signal
import subprocess
import sys
import time
from typing import TYPE_CHECKING

import fleet_rig
import pytest
from engine_here import require
from fleet_project import NAMES, TYPES

from pytest_vperf.targets.container.engine import check

if TYPE_CHECKING:
    from fleet_project import Project

#: How often each way to be lost is tried; more where somebody wants to know.
TIMES = int(os.environ.get("VPERF_TEST_TIMES", "1"))
#: Seconds for a machine whose run is gone to be clear: what is promised, where that is tried alone; beside whatever
#: else is tested here, a busy machine takes longer.
CLEAR = 5.0 if TIMES > 1 else 30.0
EVERY = {(name, type_) for name in NAMES for type_ in set(TYPES.values())}


@pytest.mark.parametrize("turn", range(TIMES))
@pytest.mark.parametrize("how", ["spread", "each"])
def test_each_claim_is_of_the_right_machine(project: Project, how: str, turn: int) -> None:
    started = project.start(f"--claims-fleet-run={how}")
    status, output = started.ended()
    assert status == 0, output
    assert started.verdicts() == {(*each, "holds") for each in EVERY}
    places = [(each["nodeid"], each["machine"]["name"]) for each in started.claims]
    assert len(places) == len(set(places)) == {"spread": 12, "each": 18}[how]
    assert project.overlaps() == []


@pytest.mark.parametrize("turn", range(TIMES))
def test_two_runs_do_not_interleave(project: Project, engine: str, turn: int) -> None:
    first = project.start("--claims-fleet-hw=type-b")
    time.sleep(random.uniform(0.5, 4))
    second = project.start("--claims-fleet-hw=type-b", record="second.json")
    outputs = []
    for each in (first, second):
        status, output = each.ended()
        assert status == 0, output
        assert len(each.claims) == len(NAMES)
        outputs.append(output)
    assert project.overlaps() == []
    waits = {"ssh": "claims: machine h3 is held for", "slurm": "fleet: h3 busy: slurm queues"}
    assert any(waits[engine] in each for each in outputs), outputs


@pytest.mark.parametrize("turn", range(TIMES))
@pytest.mark.parametrize("how", ["die", "crash", "mute"])
def test_no_claim_is_lost_with_a_machine(project: Project, how: str, turn: int) -> None:
    moment = random.uniform(0.5, 7)
    victim = random.choice(list(TYPES))
    started = project.start()
    time.sleep(moment)
    getattr(project.rig, how)(victim)
    began = time.monotonic()
    try:
        status, output = started.ended()
    finally:
        if how == "mute":
            project.rig.unmute(victim)
        else:
            project.rig.up(victim, TYPES[victim])
    told = f"{victim} {how} after {moment:.1f} s, exit status {status}, ended {time.monotonic() - began:.1f} s later"
    print(told)
    found = started.verdicts()
    assert {each[:2] for each in found} == EVERY, f"{told}\n{output}"
    held = {each[:2] for each in found if each[2] == "holds"}
    assert (status == 0) == (held == EVERY), f"{told}\n{output}"
    if TYPES[victim] == "type-a":  # there is another one
        assert status == 0, f"{told}\n{output}"
    if how == "mute":
        project.clear_after([victim], 65.0)
    assert project.overlaps() == []


@pytest.mark.parametrize("turn", range(TIMES))
def test_a_run_that_is_killed_leaves_nothing(project: Project, turn: int) -> None:
    started = project.start()
    time.sleep(random.uniform(0.5, 7))
    # What enters the namespace is the run itself: nsenter executes it.
    started.process.send_signal(signal.SIGKILL)
    started.ended()
    took = project.clear_after(list(TYPES), CLEAR)
    print(f"clear after {took:.1f} s")


def test_a_python_that_is_not_there_is_named(project: Project) -> None:
    file = project.folder / "fleet.yaml"
    file.write_text(re.sub("python: .*", "python: /no/such/python", file.read_text()))
    status, output = project.start().ended()
    assert status == pytest.ExitCode.USAGE_ERROR, output
    for name in TYPES:
        assert f"{name}: /no/such/python cannot be started there: " in output or (
            f"{name}: /no/such/python has no pytest-vperf that works there: " in output
        )


REAL = """
def test_container(claim, containers):
    claim("start.container").holds(lambda: containers.start().startup_time)

def test_pod(claim, pods):
    claim("start.pod").holds(lambda: pods.start().startup_time)
"""


@pytest.mark.timeout(400)
def test_real_targets_start_on_their_machines(project: Project, engine: str) -> None:
    require("container", check(["runc"])[0])
    for path in (project.folder / "thresholds").iterdir():
        path.write_text(
            f"{path.read_text()}  start.container: {{at_most: 1 min}}\n"
            "  start.pod: {at_most: 2 min}\n"
        )
    (project.folder / "test_it.py").write_text(REAL)
    # What starts a target does not depend on the engine: pods, which are emulated, start over one of them.
    targets = {"test_container[runc]": "container runc"}
    if engine == "ssh":
        targets["test_pod[tcg]"] = "pod tcg qboot"
    words = ["--vperf-accelerator=tcg", "--container-runtime=runc", "--claims-alpha=20%"]
    words += [f"test_it.py::{test}" for test in targets]
    started = project.start(*words)
    status, output = started.ended(300.0)
    assert status == 0, output
    assert started.verdicts() == {
        (test, type_, "holds") for test in targets for type_ in set(TYPES.values())
    }
    for each in started.claims:
        assert each["target"] == targets[each["nodeid"].split("::")[1]]
    assert project.busy(list(TYPES)) == []


def test_the_doctor_asks_all_machines(project: Project) -> None:
    words = [sys.executable, "-m", "pytest_vperf", "doctor", "--fleet=fleet.yaml", "--json", "host"]
    done = subprocess.run(
        project.rig.inside(words, project.folder), capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done
    machines = json.loads(done.stdout)["machines"]
    assert {each["name"]: each["facts"]["type"] for each in machines} == TYPES
    for each in machines:
        assert each["facts"]["cpu_model"] == fleet_rig.MODELS[each["type"]]


def test_no_machine_needs_the_project(project: Project) -> None:
    (project.folder / "build").mkdir()
    (project.folder / "build" / "runtime").write_text("built")
    (project.folder / "test_it.py").write_text(
        "import pathlib\n"
        "def test_it():\n"
        "    here = pathlib.Path(__file__).parent\n"
        f"    assert str(here) != {str(project.folder)!r}\n"
        "    assert (here / 'build' / 'runtime').read_text() == 'built'\n"
    )
    status, output = project.start("--claims-fleet-run=each").ended()
    assert status == 0, output
    assert "3 passed" in output


def test_a_run_that_is_interrupted_keeps_what_was_measured(project: Project) -> None:
    started = project.start("--claims-budget=60 s")
    deadline = time.monotonic() + 30
    while not list(project.folder.glob("samples-*")):
        assert time.monotonic() < deadline
        time.sleep(0.1)
    time.sleep(0.5)
    started.process.send_signal(signal.SIGINT)
    status, output = started.ended()
    assert status == pytest.ExitCode.INTERRUPTED, output
    assert started.claims, output
    assert "was lost" not in output
    project.clear_after(list(TYPES), CLEAR)
