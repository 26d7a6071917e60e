"""A filling from its request to its end, on a simulated host."""

from __future__ import annotations

import os
import resource
import subprocess
from typing import TYPE_CHECKING, Any, cast

import pytest

from pytest_vperf.density import fill as fill_module
from pytest_vperf.density import filling as filled_module
from pytest_vperf.density.bounds import Bounds, Stop
from pytest_vperf.density.fill import fill
from pytest_vperf.density.filling import Crowd
from pytest_vperf.density.kinds import Kind
from pytest_vperf.quantity import Quantity
from pytest_vperf.results.record import Reading
from pytest_vperf.targets.base import Facts, TargetError, Unavailable
from pytest_vperf.targets.kinds import TargetKind
from pytest_vperf.targets.scope import Scope
from pytest_vperf.workloads.memory import ProcMem

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from pytest_vperf.density.filling import Filling

MIB = 1 << 20


class Thing:
    """A target that takes 100 MiB."""

    name = "thing"

    def __init__(self, host: list[int]) -> None:
        self._host = host
        host[0] -= 100 * MIB

    def facts(self) -> Facts:
        return Facts("thing", "thing", {})

    def close(self) -> None:
        self._host[0] += 100 * MIB


@pytest.fixture
def filled() -> Callable[..., Filling]:
    """Fills a host of 2 GiB."""
    host = [2048 * MIB]

    pids: list[int | None] = []

    def kind_of(starter: Any, run: Any, crowd: Any, limit: Any) -> Kind:
        return Kind(
            "thing",
            lambda: crowd.own(cast("Any", Thing(host))),
            lambda: host[0],
            has_memory=False,
            pids=lambda targets: (pids[-1:] or [None]) * len(targets),
        )

    kinds = [TargetKind("thing", starter=type(None), fill=kind_of)]

    def make(
        bounds: Bounds, say: Callable[[str], None] = lambda text: None, pid: int | None = None
    ) -> Filling:
        pids.extend([] if pid is None else [pid])
        nothing: Any = None
        return fill(
            nothing,
            {},
            bounds,
            kinds=kinds,
            run=nothing,
            scope=Scope(),
            procmem=ProcMem(),
            guestmem=nothing,
            nodeid="test",
            seed=1,
            say=say,
            keep=lambda record: None,
        )

    return make


@pytest.fixture
def few_files() -> Iterator[int]:
    """A shell's usual limit of open files."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if hard != resource.RLIM_INFINITY and hard < 2048:
        pytest.skip("this user may not have more open files than usual")
    resource.setrlimit(resource.RLIMIT_NOFILE, (1024, hard))
    yield 1024
    resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))


def allowed() -> int:
    return resource.getrlimit(resource.RLIMIT_NOFILE)[0]


def test_the_limit_of_open_files_is_raised_while_targets_run(
    filled: Callable[..., Filling], few_files: int
) -> None:
    """With the old limit no descriptor would be left to look at one of 150 pods."""
    filling = filled(Bounds(most=3))
    assert allowed() > few_files
    filling.close()
    assert allowed() == few_files


def test_a_failed_filling_restores_the_limit_of_open_files(
    filled: Callable[..., Filling], few_files: int
) -> None:
    def interrupted(text: str) -> None:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        filled(Bounds(most=3), interrupted)
    assert allowed() == few_files


def test_a_ctrl_c_is_raised_although_a_target_does_not_end(
    filled: Callable[..., Filling], monkeypatch: pytest.MonkeyPatch
) -> None:
    def hangs(self: Crowd) -> float:
        raise TargetError("1 of 2 targets (thing) did not end within 62 s")

    def interrupted(text: str) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(Crowd, "end", hangs)
    with pytest.raises(KeyboardInterrupt):
        filled(Bounds(most=3), interrupted)


def test_a_filling_of_another_users_processes_has_no_proportional_sets() -> None:
    """As for an ordinary user with the system's libvirt: the count is known all the same."""

    class Closed(ProcMem):
        def pss(self, process: int, *, on: Any = None) -> Any:
            raise Unavailable("another user's")

    found = fill_module._processes([os.getpid()], Closed())
    assert set(found) == {"rss", "size"}
    whole = fill_module._processes([os.getpid(), None], ProcMem())
    assert set(whole) == {"rss", "size", "pss"}


def test_the_cost_uses_the_first_reading_of_each_number() -> None:
    """After the kernel killed a target the number repeats, and the killed one has left pages in the cache."""
    readings = [(0, 0), (2, 200), (4, 400), (6, 600), (6, 700), (5, 650)]
    curve = [
        Reading(n=n, at_s=0.0, available=-used * MIB, group_used=used * MIB) for n, used in readings
    ]
    for taken in (lambda reading: reading["group_used"], lambda reading: -reading["available"]):
        cost = fill_module._cost(curve, taken)
        assert cost is not None
        assert cost["estimate"] == 100


def test_without_usable_readings_there_is_no_cost() -> None:
    """Others released more memory meanwhile than these took."""
    readings = [(0, 0), (2, -3716), (3, -3600)]
    curve = [
        Reading(n=n, at_s=0.0, available=-used * MIB, group_used=used * MIB) for n, used in readings
    ]
    assert fill_module._cost(curve, lambda reading: -reading["available"]) is None
    assert fill_module._cost(curve[:1], lambda reading: reading["group_used"]) is None


@pytest.mark.parametrize(
    ("bounds", "remedy"),
    [
        (Bounds(floor=1024 * MIB), r"a smaller reserve \(--density-floor\), or none given"),
        (Bounds(memory=500 * MIB), r"more memory \(--density-memory\), or none given"),
        (Bounds(most=2), "a larger --density-max"),
    ],
)
def test_a_chosen_bound_refutes_no_claim(
    filled: Callable[..., Filling], bounds: Bounds, remedy: str
) -> None:
    filling = filled(bounds)
    try:
        with pytest.raises(Unavailable, match=f"is claimed; how many this machine .*{remedy}"):
            filling.capacity(at_least=Quantity(252, "count"))
        capacity = filling.capacity(at_least=Quantity(2, "count"))
        assert (capacity.value, capacity.discrete) == (filling.count, True)
    finally:
        filling.close()


def test_memory_kept_by_the_host_is_a_limit(filled: Callable[..., Filling]) -> None:
    filling = filled(Bounds(floor=128 * MIB))
    try:
        assert filling.stop.kind in ("floor", "budget")
        assert filling.capacity(at_least=Quantity(252, "count")).value == filling.count < 252
    finally:
        filling.close()


def test_a_refusal_in_a_full_group_says_nothing_about_the_host(
    filled: Callable[..., Filling],
) -> None:
    """With a chosen memory budget the refusal may come from the group, not the host."""
    filling = filled(Bounds(memory=500 * MIB))
    try:
        filling.stop = Stop("allocation", "fork: Cannot allocate memory")
        with pytest.raises(Unavailable, match="how many this machine carries is not known"):
            filling.capacity(at_least=Quantity(252, "count"))
    finally:
        filling.close()


def test_targets_that_outlive_the_filling_are_reported(
    filled: Callable[..., Filling], monkeypatch: pytest.MonkeyPatch
) -> None:
    """An engine that cannot remove a container does not say so, so the end of all targets is checked."""
    monkeypatch.setattr(filled_module, "_LAST", 0.2)
    with subprocess.Popen(["sleep", "60"]) as process:
        filling = filled(Bounds(most=2), pid=process.pid)
        with pytest.raises(
            TargetError, match=r"2 of 2 targets \(thing\) still run after their end"
        ):
            filling.close()
        process.kill()
    assert filling.record["teardown_s"] is None
    with subprocess.Popen(["sleep", "60"]) as process:
        filling = filled(Bounds(most=2), pid=process.pid)
        monkeypatch.setattr(Thing, "close", lambda self: process.kill())
        filling.close()
    assert filling.record["teardown_s"] is not None
