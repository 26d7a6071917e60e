"""This host, filled with a few targets: each reason to stop that can occur here, leftovers, and Ctrl-C midway."""

from __future__ import annotations

import os
import signal
import time
from pathlib import Path
from typing import TYPE_CHECKING

import psutil
import pytest
from fillings_here import filled, groups_of_fillings
from victims import traces, victim

from pytest_vperf.machine import cgroups, leftovers
from pytest_vperf.machine.runs import Run
from pytest_vperf.quantity import Quantity
from pytest_vperf.targets.base import Unavailable
from pytest_vperf.targets.image.rootfs import default_rootfs
from pytest_vperf.targets.network.commands import ip
from pytest_vperf.targets.network.switch import BRIDGE, Switch
from pytest_vperf.targets.pod.assets import prepare
from pytest_vperf.targets.pod.pods import Pods
from pytest_vperf.targets.pod.probe import check
from pytest_vperf.targets.scope import Scope

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from pytest_vperf.targets.container.containers import Containers
    from pytest_vperf.targets.pod.assets import Assets

pytestmark = [
    pytest.mark.patient,
    pytest.mark.skipif(
        os.geteuid() != 0,
        reason="to hold many targets to a memory needs root (to mend it: run as root)",
    ),
]
MIB = 1 << 20


@pytest.fixture(scope="module")
def assets(require: Callable[..., None]) -> Assets:
    require("pod", check(afresh=False)[0])
    return prepare(default_rootfs())


@pytest.fixture
def run(runs_dir: Path) -> Iterator[Run]:
    with Run.begin() as run:
        yield run
        assert [trace for trace in traces(run.id) if str(os.getpid()) not in trace] == []


@pytest.fixture
def pods(assets: Assets, run: Run) -> Pods:
    return Pods(lambda: assets, run, Scope(), accelerator="tcg", timeout=120)


def counted(number: int) -> Quantity:
    """What a filling returns as a sample."""
    return Quantity(number, "count", direction="higher", signed=True, discrete=True)


def test_pods_until_their_memory_is_full(pods: Pods, run: Run) -> None:
    said: list[str] = []
    filling = filled(pods, run, memory=600 * MIB, say=said.append)
    try:
        record = filling.record
        assert record["stop"] == "oom"
        assert record["why"].startswith(
            "the control group of all, with 600 MiB, had no memory left for one more: the kernel ended "
        )
        # Each has some 150 to 250 MiB of a pod's 512.
        assert 2 <= filling.count == record["count"] <= 4
        assert record["held"]
        # The newest was ended, and none that ran.
        assert all(target.run(["true"]).returncode == 0 for target in filling.targets)
        assert [reading["n"] for reading in record["curve"]][:2] == [0, 2]
        assert record["process"]["rss"]["min"] > 50
        assert record["process"]["pss"]["max"] <= record["process"]["rss"]["max"]
        assert record["process"]["size"]["min"] > 512
        inside = record["inside"]
        assert 400 < inside["total"]["mean"] < 512
        assert inside["used"]["mean"] + inside["free"]["mean"] == pytest.approx(
            inside["total"]["mean"]
        )
        # Of so few it may be that others gave back more than these took.
        if record["cost"] is not None:
            assert record["cost"]["estimate"] > 0
            assert record["cost"]["low"] is None
        assert any("2 run" in text or "1 run" in text for text in said)
        # So many are a count for a comparison, and of a claim only what no more memory could make smaller.
        assert filling.fits() == counted(filling.count)
        assert filling.capacity(at_least=Quantity(2, "count")).value == filling.count
        with pytest.raises(Unavailable, match=r"at least \d run, and 252 count is claimed;"):
            filling.capacity(at_least=Quantity(252, "count"))
        asked = {filling.another().process for _ in range(filling.count)}
        assert len(asked) == filling.count
        with pytest.raises(Unavailable, match=r"all \d that run were asked"):
            filling.another()
        scores = [Path(f"/proc/{pid}/oom_score_adj").read_text() for pid in asked]
        assert set(scores) == {"500\n"}
        assert cgroups.named(run.cgroup)
    finally:
        filling.close()
    assert not any(map(psutil.pid_exists, asked))
    assert 0 <= (filling.record["teardown_s"] or -1) < 30
    assert cgroups.named(run.cgroup) == []


def test_memory_that_the_kernel_refuses_to_allocate_stops_the_filling(pods: Pods, run: Run) -> None:
    """The kernel refuses one request for more than there is (vm.overcommit_memory 0, proc(5))."""
    filling = filled(
        pods, run, of_each={"memory": f"{2 * psutil.virtual_memory().total >> 20} MiB"}
    )
    try:
        assert filling.record["stop"] == "allocation"
        assert "Cannot allocate memory" in filling.record["why"]
        assert filling.count == 0
        assert filling.capacity() == counted(0)
    finally:
        filling.close()


def test_memory_that_is_too_small_for_one_pod(pods: Pods, run: Run) -> None:
    filling = filled(pods, run, memory=64 * MIB)
    try:
        assert (filling.count, filling.record["stop"]) == (0, "oom")
        assert filling.fits() == counted(0)
    finally:
        filling.close()


def test_a_reserve_beyond_the_available_memory_starts_nothing(pods: Pods, run: Run) -> None:
    with pytest.raises(Unavailable, match=r"the host has \d+ MiB available, and keeps"):
        filled(pods, run, floor=psutil.virtual_memory().total)


def test_no_port_of_a_bridge_is_left(pods: Pods, run: Run) -> None:
    """A bridge has 1023 ports (Linux, net/bridge/br_private.h, BR_MAX_PORTS); all but two are taken."""
    switch = Switch(run)
    try:
        lines = [
            f"link add x{number} type ifb\nlink set x{number} master {BRIDGE}"
            for number in range(1020)
        ]
        batch = run.folder / "ports"
        batch.write_text("\n".join(lines) + "\n")
        ip("-batch", str(batch), namespace=switch._namespace.path)
        filling = filled(pods, run, of_each={"network": switch})
        try:
            assert filling.record["stop"] == "ports"
            assert "Exchange full" in filling.record["why"]
            assert filling.count == 2
            assert filling.capacity().value == 2
        finally:
            filling.close()
    finally:
        switch.close()


def test_containers_until_there_are_enough(
    containers: Callable[[str], Containers], session_run: Run
) -> None:
    filling = filled(containers("runc"), session_run, most=5)
    try:
        record = filling.record
        assert (record["count"], record["stop"]) == (5, "most")
        assert record["options"] == {"cpus": "1.0", "memory": "512 MiB"}
        assert record["inside"] == {}
        assert record["process"]["rss"]["max"] < 50
        pids = [filling.another().process for _ in range(5)]
        groups = {cgroups.paths_of(pid).get("memory") or cgroups.paths_of(pid)[""] for pid in pids}
        assert len(groups) == 5
        if record["held"]:
            assert all(f"/{session_run.cgroup}.density" in group for group in groups)
        with pytest.raises(Unavailable, match="how many this machine carries is not known: 5 run"):
            filling.capacity(at_least=Quantity(6, "count"))
        with pytest.raises(Unavailable, match="it was not their memory that 5 fill"):
            filling.fits()
    finally:
        filling.close()
    assert not any(map(psutil.pid_exists, pids))
    assert groups_of_fillings(session_run) == []


VICTIM = """
import signal, sys
from fillings_here import filled, groups_of_fillings
from pytest_vperf.machine import leftovers
from pytest_vperf.machine.runs import Run
from pytest_vperf.targets.image.rootfs import default_rootfs
from pytest_vperf.targets.pod.assets import prepare
from pytest_vperf.targets.pod.pods import Pods
from pytest_vperf.targets.scope import Scope

signal.signal(signal.SIGINT, signal.default_int_handler)
assets = prepare(default_rootfs())
with Run.begin() as run:
    pods = Pods(lambda: assets, run, Scope(), accelerator="tcg")
    def say(text, told=[]):
        if "2 run" in text and not told:
            told.append(True)
            print(run.id, flush=True)
    filled(pods, run, memory=3 << 30, say=say)
"""


@pytest.fixture
def half_filled(
    assets: Assets, runs_dir: Path, monkeypatch: pytest.MonkeyPatch
) -> Iterator[tuple[int, str]]:
    here = str(Path(__file__).parent / "machines")
    path = os.pathsep.join([here, *filter(None, [os.environ.get("PYTHONPATH")])])
    monkeypatch.setenv("PYTHONPATH", path)
    process, run = victim(VICTIM)
    assert run
    time.sleep(0.5)  # the next ones are starting
    yield process.pid, run
    process.kill()
    process.communicate()
    leftovers.sweep()


def test_ctrl_c_in_the_middle_leaves_nothing(half_filled: tuple[int, str], runs_dir: Path) -> None:
    pid, run = half_filled
    assert traces(run)
    os.kill(pid, signal.SIGINT)
    assert psutil.Process(pid).wait(60) is not None
    assert traces(run, runs_dir) == []


def test_leftovers_of_a_killed_filling_are_found(
    half_filled: tuple[int, str], runs_dir: Path
) -> None:
    pid, run = half_filled
    os.kill(pid, signal.SIGKILL)
    psutil.Process(pid).wait(10)
    found = leftovers.find()
    shown = "\n".join(map(str, found))
    assert "qemu-system" in shown
    assert f"vperf-{run}.density" in shown
    assert leftovers.remove(found) == []
    assert traces(run, runs_dir) == []
