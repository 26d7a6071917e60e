"""Intervals of quantiles against scipy's binomial law, and against their promise."""

from __future__ import annotations

import random

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

from pytest_vperf.stats.evidence import quantile_interval, sample_quantile

values = st.lists(st.floats(-1e100, 1e100), min_size=1, max_size=40)
quantiles = st.floats(0.01, 0.99)
errors = st.floats(1e-6, 0.4)


@pytest.mark.parametrize("size", [8, 9, 13, 20, 32, 101, 600])
@pytest.mark.parametrize("quantile", [0.5, 0.9, 0.05])
@pytest.mark.parametrize("error", [0.002, 0.01, 0.1])
def test_it_has_the_binomial_coverage(size: int, quantile: float, error: float) -> None:
    """Each bound is the innermost order statistic whose error is allowed."""
    found = quantile_interval([float(i) for i in range(1, size + 1)], quantile, error, error)
    rank = int(found.low) if found.low is not None else 0  # the k-th smallest of 1, 2, 3, … is k
    if rank:
        assert stats.binom.cdf(rank - 1, size, quantile) <= error
    assert stats.binom.cdf(rank, size, quantile) > error
    rank = int(found.high) if found.high is not None else size + 1
    if rank <= size:
        assert stats.binom.sf(rank - 1, size, quantile) <= error
    assert stats.binom.sf(rank - 2, size, quantile) > error


def test_too_few_values_give_a_median_without_bounds() -> None:
    found = quantile_interval([1, 2, 3, 4, 5], 0.5, 0.002, 0.002)
    assert (found.estimate, found.low, found.high) == (3, None, None)


@given(values, quantiles, errors, errors)
def test_the_bounds_enclose_the_estimate(
    sample: list[float], quantile: float, low_error: float, high_error: float
) -> None:
    found = quantile_interval(sample, quantile, low_error, high_error)
    assert min(sample) <= found.estimate <= max(sample)
    for end in (found.low, found.high):
        assert end is None or end in sample


@given(values, quantiles)
def test_the_estimate_is_numpy_s(sample: list[float], quantile: float) -> None:
    expected = float(np.quantile(sample, quantile))
    scale = max(abs(value) for value in sample)
    assert sample_quantile(sorted(sample), quantile) == pytest.approx(
        expected, rel=1e-9, abs=1e-9 * scale
    )


def test_it_covers_as_often_as_it_says() -> None:
    source = random.Random(1)
    missed = 0
    for _ in range(400):
        sample = [source.expovariate(1) for _ in range(30)]
        found = quantile_interval(sample, 0.5, 0.05, 0.05)
        assert found.low is not None
        assert found.high is not None
        missed += not found.low <= 0.6931 <= found.high
    assert missed <= 60  # 10 % allowed are 40; more than 60 has a probability below 0.1 %
