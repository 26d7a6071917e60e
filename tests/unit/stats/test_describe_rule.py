"""Rules without a threshold describe and never decide."""

from __future__ import annotations

import math

import pytest

from pytest_vperf.stats.describe import DescribePairRule, DescribeRule


def test_describes_five_samples() -> None:
    rule = DescribeRule()
    assert rule.warming_up
    for value in [900, 10, 12, 11, 13]:
        rule.add(value)
        assert not rule.state.decided
    rule.add(14)
    state = rule.state
    assert (state.decided, state.decision, state.reason) == (True, "inconclusive", "no threshold")
    assert (state.samples, state.forecast, state.confidence) == (5, 5, 0.99)
    assert state.estimate == pytest.approx(12)
    assert state.low is not None
    assert state.high is not None
    assert 0 < state.low < 12 < state.high


def test_describes_five_pairs() -> None:
    rule = DescribePairRule(seed=3)
    taken = 0
    while not rule.state.decided:
        assert rule.warming_up == (taken < 2)
        rule.add((3.0 if rule.next() == "a" else 2.0) + taken / 1000)
        taken += 1
    state = rule.state
    assert taken == 12
    assert (state.decision, state.reason, state.samples) == ("inconclusive", "no threshold", 5)
    assert state.estimate == pytest.approx(1.5, rel=0.01)


def test_identical_samples_are_called_suspicious() -> None:
    rule = DescribeRule(samples=3, warm_up=0)
    for _ in range(3):
        rule.add(4)
    assert rule.state.reason == (
        "no threshold; all 3 samples are identical, which a real measurement hardly is"
    )


def test_refuses_what_cannot_be_described() -> None:
    with pytest.raises(ValueError):
        DescribeRule().add(math.nan)
    with pytest.raises(ValueError):
        DescribePairRule().add(0)
