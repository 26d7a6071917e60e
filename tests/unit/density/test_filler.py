"""When a filling stops, on a simulated host where each target's memory is known."""

from __future__ import annotations

import itertools
import os
import threading
import time
from typing import TYPE_CHECKING, Any, cast

import pytest

from pytest_vperf.density import filler as fillers
from pytest_vperf.density.filler import Filler
from pytest_vperf.density.filling import Crowd
from pytest_vperf.density.kinds import Kind
from pytest_vperf.stats.spread import growth
from pytest_vperf.targets.base import (
    CannotConnect,
    CannotStart,
    Facts,
    TargetError,
    TimedOut,
    Unavailable,
)

if TYPE_CHECKING:
    from collections.abc import Callable

GIB = 1 << 30
MIB = 1 << 20


class Thing:
    """A target that takes 100 MiB while it runs."""

    name = "thing"

    def __init__(self, host: Numbers) -> None:
        self.host = host

    def facts(self) -> Facts:
        return Facts("thing", "thing", {})

    def close(self) -> None:
        with self.host.lock:
            self.host.free += 100 * MIB
            self.host.ended += 1


class Numbers:
    """A simulated host with 2 GiB."""

    def __init__(self) -> None:
        self.free = 2 * GIB
        self.ended = 0
        self.lock = threading.Lock()
        self.crowd = Crowd("thing")
        self.said: list[str] = []
        self.number = itertools.count(1)
        self.trouble: Callable[[int], None] = lambda number: None
        self.kind: dict[str, Any] = {}

    def start(self, **options: object) -> Any:
        with self.lock:
            number = next(self.number)
        self.trouble(number)
        with self.lock:
            self.free -= 100 * MIB
        return self.crowd.own(cast("Any", Thing(self)))

    def filler(self, **bounds: Any) -> Filler:
        kind = Kind("thing", self.start, lambda: self.free, **self.kind)
        usual = {"most": None, "memory": 1 << 40, "floor": 0, "at_once": 2}
        return Filler(kind, self.crowd, {}, say=self.said.append, **{**usual, **bounds})


@pytest.fixture
def host() -> Numbers:
    return Numbers()


def test_filling_stops_at_the_requested_number(host: Numbers) -> None:
    filler = host.filler(most=5)
    stop = filler.fill()
    assert (stop.kind, stop.why) == ("most", "5 run, as many as were asked for (--density-max)")
    assert [reading["n"] for reading in filler.curve] == [0, 2, 4, 5]
    # The first reading is after the trial has ended, and each target takes its 100 MiB.
    assert [reading["available"] for reading in filler.curve] == [
        2 * GIB - n * 100 * MIB for n in (0, 2, 4, 5)
    ]
    assert host.crowd.end() >= 0
    assert host.ended == 6
    assert host.free == 2 * GIB


def test_filling_stops_at_the_memory_budget(host: Numbers) -> None:
    stop = host.filler(memory=500 * MIB).fill()
    assert stop.kind == "budget"
    assert stop.why == "the host has lost 500 MiB to 5, of 500 MiB"


def test_filling_stops_at_the_reserve_of_the_host(host: Numbers) -> None:
    stop = host.filler(floor=1 * GIB).fill()
    assert stop.kind == "floor"
    # The 11th would take some of it, and could not be ended while it starts.
    assert stop.why == "the host has 1.023 GiB available, one more takes 100 MiB, and keeps 1 GiB"


@pytest.mark.parametrize("bounds", [{"floor": 1 * GIB}, {"memory": 40 * GIB}])
def test_a_round_is_no_larger_than_the_remaining_memory(
    host: Numbers, monkeypatch: pytest.MonkeyPatch, bounds: dict[str, int]
) -> None:
    """On a host with 64 processors and no limit on all targets together."""
    monkeypatch.setattr(fillers, "_REST", 0.0)
    host.free = 41 * GIB
    filler = host.filler(at_once=64, **bounds)
    filler.fill()
    assert 400 <= len(filler.pids) <= 410  # of 409.6
    assert host.free >= 1 * GIB - 100 * MIB


def test_a_host_at_its_reserve_starts_nothing(host: Numbers) -> None:
    filler = host.filler(floor=2 * GIB)
    assert filler.fill().kind == "floor"
    assert (filler.pids, next(host.number)) == ({}, 1)


def test_memory_that_others_take_during_starts_stops_the_filling(host: Numbers) -> None:
    def slowly(number: int) -> None:
        if number == 4:
            host.free = 0  # somebody else takes it
            time.sleep(0.5)

    host.trouble = slowly
    filler = host.filler(floor=MIB)
    assert filler.fill().kind == "floor"
    assert len(filler.pids) == 4


def test_a_refusal_ends_the_filling_and_running_targets_count(host: Numbers) -> None:
    def refuse(number: int) -> None:
        if number == 8:
            raise CannotStart("QEMU said: Cannot allocate memory")

    host.trouble = refuse
    filler = host.filler()
    stop = filler.fill()
    assert (stop.kind, stop.why) == ("allocation", "QEMU said: Cannot allocate memory")
    # The 1st is the trial and does not count; the 9th was started with the 8th, and runs.
    assert len(filler.pids) == 7
    assert filler.curve[-1]["n"] == 7


def test_a_refusal_of_the_first_target_is_a_count_of_zero(host: Numbers) -> None:
    def refuse(number: int) -> None:
        raise CannotStart("Cannot allocate memory")

    host.trouble = refuse
    filler = host.filler()
    assert filler.fill().kind == "allocation"
    assert filler.pids == {}


def test_a_slow_start_ends_the_filling(host: Numbers) -> None:
    def late(number: int) -> None:
        if number == 4:
            raise TimedOut("thing was not ready")

    host.trouble = late
    filler = host.filler()
    assert filler.fill().kind == "slow"
    assert len(filler.pids) == 3


def test_a_slow_first_start_is_an_error(host: Numbers) -> None:
    def late(number: int) -> None:
        raise TimedOut("thing was not ready")

    host.trouble = late
    with pytest.raises(TimedOut):
        host.filler().fill()


def test_any_other_failed_start_is_an_error(host: Numbers) -> None:
    def wrong(number: int) -> None:
        if number == 5:
            raise CannotStart("no such firmware")

    host.trouble = wrong
    with pytest.raises(CannotStart, match="no such firmware"):
        host.filler().fill()
    host.crowd.end()
    assert host.free == 2 * GIB


def test_ctrl_c_ends_starting_and_running_targets(host: Numbers) -> None:
    def interrupted(text: str) -> None:
        if len(filler.pids) >= 4:
            raise KeyboardInterrupt

    host.trouble = lambda number: time.sleep(0.3)
    filler = host.filler()
    filler._say = interrupted
    with pytest.raises(KeyboardInterrupt):
        filler.fill()
    host.crowd.end()
    assert host.crowd.targets == ()
    assert host.free == 2 * GIB


def test_targets_that_start_during_the_end_are_ended(host: Numbers) -> None:
    host.crowd.end()
    with pytest.raises(TargetError, match="thing: it came when all were to end"):
        host.start()
    assert host.ended == 1


def test_targets_that_end_by_themselves_do_not_count(host: Numbers) -> None:
    filler = host.filler(most=4)
    filler.fill()
    gone = host.crowd.targets[0]
    filler.pids[gone] = 1 << 30  # no process has this number
    with pytest.raises(CannotConnect, match=r"1 of 4 targets \(thing\) ended while others started"):
        filler.bury()
    assert len(filler.pids) == 3


def test_progress_is_reported(host: Numbers) -> None:
    host.trouble = lambda number: time.sleep(0.3)
    host.filler(most=2).fill()
    assert host.said[0] == "thing: the first one"
    assert host.said[1].startswith("thing: 0 of 2 run, 0 MiB of 1024 GiB lost, 2 GiB available")


def test_many_targets_are_ended_in_parallel(host: Numbers, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Thing, "close", lambda self: time.sleep(0.1))
    for _ in range(16):
        host.start()
    assert host.crowd.end() < 1.0


class Group:
    """A simulated control group; a running process is this one's parent, an ended one has an unused PID."""

    path = "/vperf-1.density1"
    limit = used = 0

    def __init__(self) -> None:
        self.kills = 0
        self.processes: list[int] = []
        self.ended: set[int] = set()

    def end(self, processes: set[int]) -> None:
        self.ended |= processes


def held(host: Numbers, pids: Callable[[Any], int | None]) -> Group:
    """Put all of a host's targets into a group."""
    group = Group()
    host.kind = {"group": group, "pids": lambda targets: [pids(target) for target in targets]}
    return group


GONE = 1 << 30  # no process has this number
HERE = os.getpid()


def test_large_rounds_leave_enough_readings_for_an_interval(
    host: Numbers, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(fillers, "_REST", 0.0)
    host.free = 1 << 40
    filler = host.filler(most=30, at_once=64)
    assert filler.fill().kind == "most"
    numbers = [reading["n"] for reading in filler.curve]
    assert numbers[-1] == 30
    found = growth(numbers, [-reading["available"] / MIB for reading in filler.curve])
    assert (found.low, found.high) == (100, 100)
    # And many targets take no more rounds than needed.
    host.number = itertools.count(1)
    filler = host.filler(most=600, at_once=64)
    filler.fill()
    assert filler.curve[-1]["n"] == 600
    assert filler.curve[-2]["n"] >= 536


def test_a_process_that_ended_before_it_was_found_is_dead(host: Numbers) -> None:
    """The kernel kills the newest first; the QEMU of an ended guest can no longer be found."""
    gone = threading.Event()
    group = held(host, lambda target: None if gone.is_set() else HERE)
    group.processes = [HERE]

    def full(number: int) -> None:
        if number == 4:
            group.kills = 1
            gone.set()

    host.trouble = full
    filler = host.filler()
    assert filler.fill().kind == "oom"
    assert list(filler.pids.values()) == [HERE, HERE]
    assert host.ended == 3  # the trial is one of them


def test_targets_ended_with_their_batch_did_not_end_by_themselves(
    host: Numbers,
) -> None:
    """It may have come up between the check and the signal."""
    numbers = iter([HERE, HERE, GONE])
    known: dict[Any, int] = {}
    group = held(host, lambda target: known.setdefault(target, next(numbers)))
    group.processes = [HERE]

    def slowly(number: int) -> None:
        if number == 3:
            host.free = 0
            group.processes = [HERE, GONE]
            time.sleep(0.5)
            raise CannotStart("QEMU was killed by signal 9")

    host.trouble = slowly
    filler = host.filler(at_once=1, floor=MIB)
    filler._newcomers = lambda: {GONE}  # type: ignore[method-assign]
    stop = filler.fill()
    assert stop.kind == "floor"
    assert group.ended == {GONE}
    (only,) = filler.pids
    filler.pids[only] = GONE
    assert filler.bury() is None
    assert filler.pids == {}


def test_a_hanging_start_is_awaited_only_for_the_time_limit(
    host: Numbers, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(fillers, "_GIVE_UP", 0.3)
    may_end = threading.Event()

    def hangs(number: int) -> None:
        if number == 3:
            may_end.wait(20)

    host.trouble = hangs
    filler = host.filler()

    def interrupted(text: str) -> None:
        if "run," in text:
            raise KeyboardInterrupt

    filler._say = interrupted
    began = time.monotonic()
    with pytest.raises(KeyboardInterrupt):
        filler.fill()
    assert time.monotonic() - began < 5
    host.crowd.end()
    may_end.set()
    deadline = time.monotonic() + 5
    while host.free != 2 * GIB and time.monotonic() < deadline:
        time.sleep(0.01)
    assert host.free == 2 * GIB  # the late one was ended, too


def test_a_process_outside_the_group_is_not_measured(host: Numbers) -> None:
    held(host, lambda target: HERE)
    with pytest.raises(
        Unavailable, match=f"process {HERE} is not in the control group /vperf-1.density1"
    ) as caught:
        host.filler().fill()
    assert caught.value.target == "thing"
    host.crowd.end()
    assert host.free == 2 * GIB


def test_a_first_target_killed_by_the_kernel_lacked_memory(host: Numbers) -> None:
    """Whatever the start's error says: limits of an ended process cannot be read back."""
    group = held(host, lambda target: HERE)

    def ended(number: int) -> None:
        group.kills = 1
        raise Unavailable("no process of the container is seen on this machine")

    host.trouble = ended
    assert host.filler().fill().kind == "oom"
