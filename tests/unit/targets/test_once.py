"""A shared resource is made once, and again where it died."""

from __future__ import annotations

import itertools

import pytest

from pytest_vperf.targets.base import CannotConnect, Once, TargetError, Unavailable


class Engine:
    """A resource that may die."""

    def __init__(self, number: int) -> None:
        self.number = number
        self.dead = self.closed = False

    def close(self) -> None:
        self.closed = True


def shared() -> Once[Engine]:
    numbers = itertools.count(1)
    return Once(
        lambda: Engine(next(numbers)), gone=lambda each: each.dead, end=lambda each: each.close()
    )


def test_live_resources_are_kept() -> None:
    once = shared()
    assert not once.made
    first = once()
    assert once() is first
    assert list(once.made) == [first]


def test_a_dead_daemon_is_ended_and_started_again() -> None:
    once = shared()
    first = once()
    first.dead = True
    assert once() is first  # under the test whose claim it breaks
    once.renew()
    assert not once.made
    second = once()
    assert (first.closed, second.closed, second.number) == (True, False, 2)
    assert list(once.made) == [second]


def test_a_daemon_that_dies_repeatedly_is_given_up() -> None:
    once = shared()
    for _ in range(3):
        once().dead = True
        once.renew()
    errors: list[TargetError] = []
    for _ in range(2):
        with pytest.raises(CannotConnect) as caught:
            once()
        errors.append(caught.value)
    assert str(errors[0]).startswith("it died 3 times in this run, and is not started again")
    assert errors[0] is errors[1]
    assert not once.made


def test_an_unavailable_resource_is_tried_once() -> None:
    tries = []

    def make() -> Engine:
        tries.append(1)
        raise Unavailable("there is none here")

    once = Once(make, gone=lambda each: each.dead)
    for _ in range(3):
        once.renew()
        with pytest.raises(Unavailable, match="there is none here"):
            once()
    assert len(tries) == 1
