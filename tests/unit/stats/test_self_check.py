"""What the counts of a self-check allow to conclude."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.stats import binom, binomtest

from pytest_vperf.stats.self_check import (
    Tally,
    most_wrong,
    order,
    share_at_least,
    share_at_most,
    slower_decisions,
)


@pytest.mark.parametrize(
    ("decisions", "allowed"),
    [(0, 0), (1, 1), (2, 1), (20, 3), (60, 6), (100, 7), (200, 11), (1000, 35)],
)
def test_the_number_of_wrong_decisions_allowed(decisions: int, allowed: int) -> None:
    assert most_wrong(decisions) == allowed


@given(st.integers(1, 3000))
def test_it_is_the_smallest_number_that_a_sound_metric_seldom_exceeds(decisions: int) -> None:
    allowed = most_wrong(decisions)
    assert binom.sf(allowed, decisions, 0.02) < 0.001
    assert not allowed or binom.sf(allowed - 1, decisions, 0.02) >= 0.001


@given(st.integers(1, 400).flatmap(lambda n: st.tuples(st.integers(0, n), st.just(n))))
def test_bounds_are_those_of_clopper_and_pearson(counts: tuple[int, int]) -> None:
    count, of = counts
    exact = binomtest(count, of).proportion_ci(0.90, "exact")  # two-sided: 5 % on each side
    assert share_at_most(count, of) == pytest.approx(exact.high)
    assert share_at_least(count, of) == pytest.approx(exact.low)


@given(st.integers(1, 500))
def test_slower_decisions_are_spread_and_all_there(decisions: int) -> None:
    asked = list(order(decisions))
    assert asked.count(False) == decisions
    assert asked.count(True) == slower_decisions(decisions)
    for end in range(1, len(asked) + 1):
        same, slower = asked[:end].count(False), asked[:end].count(True)
        assert same * slower_decisions(decisions) / decisions - 1.5 < slower <= same


def test_there_are_60_slower_decisions_for_200() -> None:
    assert slower_decisions(200) == 60


@pytest.mark.parametrize(
    ("tally", "finding"),
    [
        (Tally(200, 0, 0, 60, 60), "stable"),
        (Tally(200, 5, 6, 60, 57), "stable"),
        (Tally(200, 6, 6, 60, 57), "unstable"),
        (Tally(200, 0, 12, 60, 60), "unstable"),
        (Tally(200, 12, 0, 60, 0), "unstable"),
        (Tally(200, 5, 6, 60, 56), "too noisy"),
        (Tally(200, 0, 0, 60, 0), "too noisy"),
        (Tally(10, 0, 0, 3, 0), "too noisy"),  # 0 of 3: the share is below 0.64
        (Tally(10, 0, 0, 3, 2), "too few"),
        (Tally(3, 0, 0, 1, 1), "too few"),
        (Tally(3, 3, 0, 1, 1), "unstable"),
        (Tally(28, 0, 0, 60, 60), "too few"),
        (Tally(29, 0, 0, 60, 60), "stable"),
        (Tally(200, 0, 0, 13, 13), "too few"),
        (Tally(200, 0, 0, 14, 14), "stable"),
        (Tally(200, 0, 0, 0, 0), "too few"),
        (Tally(0, 0, 0, 0, 0), "too few"),
    ],
)
def test_tallies_become_findings(tally: Tally, finding: str) -> None:
    assert tally.finding == finding


def test_conclusions_name_their_bounds() -> None:
    assert Tally(200, 1, 1, 60, 60).conclusion == (
        "wrong at most 3.11 % of A/A verdicts, found at least 95.1 % of the slower ones (each bound 95 %)"
    )
    assert Tally(3, 0, 0, 0, 0).conclusion == (
        "wrong at most 63.2 % of A/A verdicts (each bound 95 %)"
    )
    assert Tally(0, 0, 0, 0, 0).conclusion == "no decision was made"
