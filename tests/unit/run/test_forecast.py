"""Where a run is, and how long it still takes."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from passing_time import Clock

from pytest_vperf.run import forecast
from pytest_vperf.run.forecast import Forecast
from pytest_vperf.run.outcomes import TEST_CLAIMS, TestClaims


class Item:
    """A test, as far as a forecast looks at it."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.stash = pytest.Stash()


def visit(run: Forecast, item: Any, *, more: bool) -> None:
    """Have a test visited; ``run.left`` is asked for while it runs."""
    item.stash[TEST_CLAIMS] = TestClaims(continues=more)
    going = run.pytest_runtest_protocol(item)
    next(going)
    with pytest.raises(StopIteration):
        going.send(None)


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    clock = Clock()
    monkeypatch.setattr(forecast, "time", clock)
    return clock


def items(number: int) -> list[Any]:
    return [Item(f"test_{k}") for k in range(number)]


def test_it_is_told_from_the_visits_so_far(clock: Clock) -> None:
    tests = items(4)
    run = Forecast(tests, visits=3)
    assert (run.test, run.place, run.left) == ("", "0 of 4", None)
    first = run.pytest_runtest_protocol(tests[0])
    next(first)
    assert (run.test, run.place) == ("test_0", "1 of 4")
    clock.sleep(10)
    tests[0].stash[TEST_CLAIMS] = TestClaims(continues=True)
    with pytest.raises(StopIteration):
        first.send(None)
    # Eleven more visits of ten seconds.
    assert run.left == 110
    clock.sleep(4)
    assert run.left == 106
    assert run.place == "1 of 4, ~106 s left"


def test_a_test_that_is_over_early_shortens_it(clock: Clock) -> None:
    tests = items(2)
    run = Forecast(tests, visits=3)
    for test in tests:
        clock.sleep(10)
        visit(run, test, more=False)
    assert run.left == 0
    assert run.over == "2 of 2"


def test_others_are_expected_to_be_like_those_that_are_known(clock: Clock) -> None:
    tests = items(3)
    run = Forecast(tests, visits=3)
    clock.sleep(10)
    visit(run, tests[0], more=False)
    assert run.left == 20


def test_time_that_is_shared_is_over_at_its_end(clock: Clock) -> None:
    run = Forecast(items(2), visits=3, seconds=600)
    clock.sleep(60)
    assert run.place == "0 of 2, ~9 min left"
    clock.sleep(600)
    assert run.left is None


def test_of_one_test_the_number_is_not_told(clock: Clock) -> None:
    (test,) = items(1)
    run = Forecast([test], visits=3)
    assert run.place == ""
    clock.sleep(5)
    visit(run, test, more=True)
    assert run.place == "~10 s left"


def test_a_test_without_a_claim_is_no_visit(clock: Clock) -> None:
    tests = items(1)
    run = Forecast(tests, visits=3)
    clock.sleep(5)
    visit(run, Item("other"), more=False)
    assert run.left is None


@given(
    st.lists(st.tuples(st.integers(0, 3), st.booleans(), st.floats(0, 100)), max_size=20),
    st.integers(1, 3),
)
def test_it_is_never_negative(visits: list[tuple[int, bool, float]], most: int) -> None:
    clock: Any = Clock()
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(forecast, "time", clock)
        tests = items(4)
        run = Forecast(tests, most)
        for number, more, seconds in visits:
            clock.sleep(seconds)
            visit(run, tests[number], more=more)
            assert run.left is not None
            assert run.left >= 0
