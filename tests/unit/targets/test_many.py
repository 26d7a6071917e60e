"""Many targets: started and ended several at a time, and how many fit into a machine."""

from __future__ import annotations

import threading
import time

import pytest

from pytest_vperf.targets.base import CannotStart, Unavailable
from pytest_vperf.targets.host import Host
from pytest_vperf.targets.many import (
    at_a_time,
    available,
    fitting,
    memory_each,
    share_of_memory,
    start_many,
)
from pytest_vperf.targets.scope import Scope


class Slow:
    """Starts and ends hosts, and counts how many did so at once."""

    def __init__(self, scope: Scope, fails_at: int = 0) -> None:
        self.scope, self.fails_at = scope, fails_at
        self.lock = threading.Lock()
        self.started = self.now = self.most = self.ended = 0

    def start(self) -> Host:
        with self.lock:
            self.started += 1
            number = self.started
            self.now += 1
            self.most = max(self.most, self.now)
        time.sleep(0.05)
        with self.lock:
            self.now -= 1
        if number == self.fails_at:
            raise CannotStart("no more of them")
        counts = self

        class Counted(Host):
            closed = False

            def close(self) -> None:
                if not self.closed:
                    self.closed = True
                    with counts.lock:
                        counts.ended += 1
                super().close()

        return self.scope.own(Counted(tools="host"))


def test_the_first_one_starts_alone_and_the_rest_several_at_a_time() -> None:
    scope = Scope()
    slow = Slow(scope)
    alone = slow.start
    started = start_many(alone, 12, scope)
    assert len(started) == slow.started == 12
    assert 1 < slow.most <= at_a_time() or at_a_time() == 1
    scope.close_since()
    assert slow.ended == 12


def test_a_start_that_fails_ends_all_and_begins_no_more() -> None:
    scope = Scope()
    slow = Slow(scope, fails_at=4)
    with pytest.raises(CannotStart, match="no more of them"):
        start_many(slow.start, 60, scope)
    assert slow.started < 60
    scope.close_since()
    assert slow.ended == slow.started - 1


def test_the_first_start_that_fails_is_the_only_one() -> None:
    scope = Scope()
    slow = Slow(scope, fails_at=1)
    with pytest.raises(CannotStart):
        start_many(slow.start, 60, scope)
    assert slow.started == 1


def test_zero_targets_are_refused() -> None:
    with pytest.raises(ValueError, match="count is 0, less than 1"):
        start_many(lambda: None, 0, Scope())


def test_what_fits_is_by_the_memory_that_is_available() -> None:
    with Host(tools="host") as host:
        there = available(host)
        assert 1 << 20 < there < 1 << 50
        assert fitting(host, 1, 7) == 7
        assert fitting(host, 1 << 60, 7) == 0
        assert memory_each(host, 1, "256 MiB") in ("256 MiB", "")


@pytest.mark.parametrize(
    ("mib", "machines", "each"),
    [(16_000, 7, "1024 MiB"), (4000, 7, "512 MiB"), (1792, 7, "256 MiB")],
)
def test_memory_is_shared_in_whole_steps(mib: int, machines: int, each: str) -> None:
    assert share_of_memory(mib * 2**20, machines, "1 GiB", "host") == each


def test_too_little_memory_is_reported() -> None:
    with pytest.raises(Unavailable) as caught:
        share_of_memory(1000 * 2**20, 7, "1 GiB", "host")
    assert str(caught.value) == (
        "host has 1000 MiB for 7 machines, less than 256 MiB for each (to mend it: end what else takes its memory)"
    )
