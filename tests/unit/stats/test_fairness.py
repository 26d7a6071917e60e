"""Jain's index against its definition and bounds, and stragglers."""

from __future__ import annotations

import math
from typing import Literal

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pytest_vperf.stats.spread import FEWEST, jain_index, stragglers, worst_over_median

positive = st.floats(1e-9, 1e9)
shares = st.lists(st.one_of(st.just(0.0), positive), min_size=1, max_size=120).filter(any)
figures = st.lists(positive, min_size=1, max_size=120)
better = st.sampled_from(["lower", "higher"])


@given(shares)
def test_the_index_is_between_one_of_n_and_one(values: list[float]) -> None:
    assert 1 / len(values) <= jain_index(values) <= 1


@given(shares, st.floats(1e-6, 1e6))
def test_the_index_has_no_scale(values: list[float], factor: float) -> None:
    scaled = [factor * value for value in values]
    assert jain_index(scaled) == pytest.approx(jain_index(values), rel=1e-9)


@given(positive, st.integers(1, 120))
def test_equal_shares_are_fair(value: float, count: int) -> None:
    assert jain_index([value] * count) == pytest.approx(1, abs=1e-12)


@given(positive, st.integers(1, 40), st.integers(0, 40))
def test_k_equal_shares_of_n_give_k_of_n(value: float, some: int, others: int) -> None:
    """The report's own example: k of n with equal shares, the rest with nothing."""
    found = jain_index([value] * some + [0.0] * others)
    assert found == pytest.approx(some / (some + others), rel=1e-12)


@given(st.permutations([1.0, 2.0, 3.0, 5.0, 8.0]))
def test_the_order_does_not_matter(values: list[float]) -> None:
    assert jain_index(values) == pytest.approx(19**2 / (5 * 103), rel=1e-12)


def test_extremes_stay_finite() -> None:
    assert jain_index([1e300, 1e300]) == 1
    assert jain_index([1e-300, 1e-300]) == 1
    assert jain_index([1e300, 1e-300]) == 0.5


@pytest.mark.parametrize("values", [[], [0.0], [1.0, -1.0], [0.0, 0.0], [math.inf], [math.nan]])
def test_bad_shares_are_refused(values: list[float]) -> None:
    with pytest.raises(ValueError, match=r"shares are numbers from 0 on|not a finite number"):
        jain_index(values)


def test_a_straggler_is_found() -> None:
    times = [10.0, 10.1, 10.2, 9.9, 9.8, 10.05, 30.0]
    assert stragglers(times, direction="lower") == (6,)
    assert stragglers([1 / time for time in times], direction="higher") == (6,)


def test_a_target_far_ahead_is_not_a_straggler() -> None:
    assert stragglers([10.0, 10.1, 10.2, 9.9, 9.8, 10.05, 3.0], direction="lower") == ()


@given(st.lists(positive, min_size=FEWEST, max_size=60), better)
def test_never_more_than_a_quarter_are_behind(
    values: list[float], good: Literal["lower", "higher"]
) -> None:
    """A fence is not below the upper quartile."""
    assert len(stragglers(values, direction=good)) <= len(values) / 4


@given(st.lists(positive, max_size=FEWEST - 1), better)
def test_few_targets_have_no_stragglers(
    values: list[float], good: Literal["lower", "higher"]
) -> None:
    assert stragglers(values, direction=good) == ()


@given(figures)
def test_the_worst_is_no_better_than_the_median(values: list[float]) -> None:
    assert worst_over_median(values, direction="lower") >= 1
    assert worst_over_median(values, direction="higher") >= 1


def test_the_worst_is_compared_with_the_median() -> None:
    assert worst_over_median([1, 2, 3, 4, 9], direction="lower") == 3
    assert worst_over_median([1, 2, 3, 4, 9], direction="higher") == 3
    with pytest.raises(ValueError, match="there are no figures"):
        worst_over_median([], direction="lower")
    with pytest.raises(ValueError, match="not a positive number"):
        worst_over_median([1, 0], direction="lower")
