"""A killed run's leftover engine and containers are found, shown and removed; live runs are untouched."""

from __future__ import annotations

import os
import signal
import time
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from victims import traces, victim

from pytest_vperf.machine import cgroups, leftovers, mounts
from pytest_vperf.machine.preflight import find_program
from pytest_vperf.machine.processes import describe, owned_by
from pytest_vperf.machine.runs import LABEL_FOLDER, LABEL_PLACE, LABEL_RUN, MARK_FOLDER, Run, place
from pytest_vperf.targets.container import engine as leftover_containers
from pytest_vperf.targets.container.runtimes import installed

if TYPE_CHECKING:
    from collections.abc import Iterator

    from pytest_vperf.targets.container.engine import Engine

pytestmark = pytest.mark.skipif(
    os.geteuid() != 0 or not find_program("dockerd"),
    reason="a private engine needs root and dockerd (to mend it: apt-get install docker.io)",
)

VICTIM = """
import sys, time
from pytest_vperf.machine.runs import Run
from pytest_vperf.targets.image import rootfs as image
from pytest_vperf.targets.container.containers import Containers
from pytest_vperf.targets.container.engine import Engine
from pytest_vperf.targets.container.address import connect
from pytest_vperf.targets.container.private_engine import PrivateEngine
from pytest_vperf.targets.scope import Scope

how, runtimes = sys.argv[1], sys.argv[2:]
with Run.begin() as run:
    own = PrivateEngine.start(run)
    with Engine(connect(own.url), own.url, run, own) as engine:
        image_id = image.import_into(engine.client, image.default_rootfs())
        for runtime in runtimes:
            Containers(lambda: engine, run, Scope(), runtime=runtime, rootfs=lambda _: image_id).start()
        print(run.id, flush=True)
        if how == "raise":
            raise RuntimeError("on purpose")
        if how == "wait":
            time.sleep(60)
"""
RUNTIMES = [name for name in ("runc", "runsc") if name in installed()]


def processes(run: str) -> str:
    """The command lines of a run's processes."""
    found = owned_by(MARK_FOLDER, Path(os.environ["VPERF_RUNS_DIR"], f"run-{run}"), f"vperf-{run}")
    return "\n".join(map(describe, found))


@pytest.fixture
def killed(runs_dir: Path) -> Iterator[str]:
    process, run = victim(VICTIM, "wait", *RUNTIMES)
    before = processes(run)
    for part in ("dockerd", "containerd ", "containerd-shim", "sleep infinity"):
        assert part in before
    if "runsc" in RUNTIMES:
        assert "runsc-sandbox" in before
        assert "runsc-gofer" in before
    os.kill(process.pid, signal.SIGKILL)
    process.communicate()
    yield run
    leftovers.sweep()


def test_kill_9_ends_the_daemons_and_the_containers(killed: str) -> None:
    """The kernel ends the daemons at once, and the guardian what they leave: nobody sweeps here."""
    deadline = time.monotonic() + 20
    while left := processes(killed):
        assert time.monotonic() < deadline, left
        time.sleep(0.1)


def test_after_kill_9_everything_is_found_and_removed(killed: str, runs_dir: Path) -> None:
    found = leftovers.find()
    shown = "\n".join(map(str, found))
    assert {leftover.run for leftover in found} == {killed}
    assert {leftover.kind for leftover in found} >= {"mount", "cgroup", "folder"}
    assert "/merged" in shown
    sockets = [Path(entry.what.split()[1]) for entry in found if entry.kind == "socket"]
    assert len(sockets) == len(RUNTIMES)

    assert leftovers.remove(found) == []
    assert traces(killed, runs_dir) == []
    assert not any(path.exists() for path in sockets)
    assert leftovers.find() == []


def test_the_next_run_sweeps_it_away_and_spares_the_living(
    killed: str, runs_dir: Path, tmp_path: Path
) -> None:
    process, alive = victim(VICTIM, "wait", *RUNTIMES)
    try:
        folder = runs_dir / f"run-{alive}"
        before = {p.pid for p in owned_by(MARK_FOLDER, folder, f"vperf-{alive}")}
        held = mounts.below(folder)
        assert held
        assert before
        assert {leftover.run for leftover in leftovers.sweep()} == {killed}
        assert traces(killed, runs_dir) == []
        assert {p.pid for p in owned_by(MARK_FOLDER, folder, f"vperf-{alive}")} >= before
        assert mounts.below(folder) == held
        assert cgroups.named(f"vperf-{alive}")
    finally:
        os.kill(process.pid, signal.SIGINT)
        process.communicate(timeout=60)
    assert traces(alive, runs_dir) == []


@pytest.mark.parametrize("how", ["end", "raise"])
def test_a_run_that_ends_by_itself_leaves_nothing(runs_dir: Path, how: str) -> None:
    process, run = victim(VICTIM, how, *RUNTIMES)
    process.communicate(timeout=60)
    assert process.returncode == (1 if how == "raise" else 0)
    assert traces(run, runs_dir) == []
    assert leftovers.find() == []


def test_containers_of_dead_runs_in_an_engine_of_others(
    engine: Engine, rootfs: str, runs_dir: Path
) -> None:
    def create(labels: dict[str, str]) -> str:
        made = engine.client.containers.create(rootfs, ["true"], network_mode="none", labels=labels)
        return str(made.name)

    dead = {
        LABEL_RUN: "01234567",
        LABEL_PLACE: place(),
        LABEL_FOLDER: str(runs_dir / "run-01234567"),
    }
    with Run.begin() as run:
        name = create(dead)
        spared = [
            create(run.labels),
            create({**dead, LABEL_PLACE: "elsewhere/0"}),
            create({**dead, LABEL_FOLDER: "/not/here/run-01234567"}),
            create({}),
        ]
        try:
            found = leftover_containers.find_leftovers(engine.client, engine.url)
            assert [str(leftover) for leftover in found] == [f"run 01234567: container {name}"]
            assert leftovers.remove(found) == []
            assert leftovers.remove(found) == [], "gone already is no error"
            assert leftover_containers.find_leftovers(engine.client, engine.url) == []
        finally:
            for other in spared:
                engine.client.containers.get(other).remove(force=True)
