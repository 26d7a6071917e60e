"""Intervals against scipy's own, and against their promise."""

from __future__ import annotations

import random

import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

from pytest_vperf.stats.interval import interval, mean_interval, median_interval

values = st.lists(st.floats(-1e100, 1e100), min_size=2, max_size=40)
errors = st.floats(1e-6, 0.4)


def test_the_mean_s_interval_is_student_s() -> None:
    sample = [352.0, 391.0, 376.0, 380.0, 371.5]
    low, high = stats.t.interval(
        0.98, len(sample) - 1, loc=stats.tmean(sample), scale=stats.sem(sample)
    )
    found = mean_interval(sample, 0.01, 0.01)
    assert (found.estimate, found.low, found.high) == pytest.approx((374.1, low, high))


@pytest.mark.parametrize("size", [8, 9, 13, 20, 32, 101])
@pytest.mark.parametrize("error", [0.002, 0.01, 0.1])
def test_the_median_s_interval_has_the_binomial_coverage(size: int, error: float) -> None:
    """The bound is the widest order statistic whose error is allowed, and the next one's is not."""
    found = median_interval(list(range(1, size + 1)), error, error)
    rank = int(found.low) if found.low is not None else 0  # the k-th smallest of 1, 2, 3, … is k
    if rank:
        assert stats.binom.cdf(rank - 1, size, 0.5) <= error
    assert stats.binom.cdf(rank, size, 0.5) > error
    assert found.high == (size + 1 - rank if rank else None)


def test_too_few_values_give_a_median_without_bounds() -> None:
    found = median_interval([1, 2, 3, 4, 5], 0.002, 0.002)
    assert (found.estimate, found.low, found.high) == (3, None, None)


def test_the_median_of_an_even_number_is_between_the_middle_two() -> None:
    assert median_interval([4, 1, 3, 2], 0.1, 0.1).estimate == 2.5


@given(values, errors, errors, st.sampled_from(["mean", "median"]))
def test_the_estimate_is_inside(
    sample: list[float], low_error: float, high_error: float, statistic: str
) -> None:
    found = interval("mean" if statistic == "mean" else "median", sample, low_error, high_error)
    assert found.low is None or found.low <= found.estimate
    assert found.high is None or found.estimate <= found.high


@given(values, errors)
def test_a_smaller_error_is_a_wider_interval(sample: list[float], error: float) -> None:
    wide, narrow = mean_interval(sample, error / 2, error / 2), mean_interval(sample, error, error)
    assert wide.low is not None
    assert narrow.low is not None
    assert wide.high is not None
    assert narrow.high is not None
    assert wide.low <= narrow.low
    assert narrow.high <= wide.high


@pytest.mark.parametrize("value", [0.0, 0.1, 1e-300, 1e300, -7.3])
def test_identical_values_have_an_interval_of_no_width(value: float) -> None:
    found = mean_interval([value] * 7, 0.01, 0.01)
    assert (found.estimate, found.low, found.high) == (value, value, value)


def test_a_bound_is_wrong_no_more_often_than_it_says() -> None:
    """Normal noise for the mean; a skewed law for the median, whose interval needs no law."""
    source = random.Random(1)
    rounds, error = 2000, 0.05
    mean_missed = median_missed = 0
    for _ in range(rounds):
        low = mean_interval([source.gauss(10, 2) for _ in range(6)], error, error).low
        mean_missed += low is not None and low > 10
        low = median_interval([source.expovariate(1) for _ in range(15)], error, error).low
        median_missed += low is not None and low > 0.6931471805599453  # log 2
    # 3 standard deviations of a count with the probability of 0.05 are 29.
    assert mean_missed <= rounds * error + 30
    assert median_missed <= rounds * error + 30
