"""The promise that the judge of pairs stands on: betting on a fair coin wins nothing, whatever the noise."""

from __future__ import annotations

import itertools
import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pytest_vperf.stats.evidence import (
    AGAINST,
    FOR,
    Background,
    Evidence,
    Gamblers,
    Pair,
    SignEvidence,
)

#: Logarithms of what would be measured in each moment, were the arms equal. Multiples of 1/64, so that sums are exact
#: and ties stay ties; few different ones bring many ties.
fine = st.integers(-64, 64).map(lambda number: number / 64)
coarse = st.sampled_from([0.0, 0.125])
slots = st.lists(
    st.tuples(fine, fine) | st.tuples(coarse, coarse),
    min_size=1,
    max_size=7,
)
shifts = st.sampled_from([-0.25, 0.0, 1 / 64, 0.25])
goods = st.sampled_from(["above", "below"])


def capitals(
    noise: list[tuple[float, float]], coins: tuple[bool, ...], truth: float, question: Evidence
) -> tuple[float, float]:
    """Both capitals after these moments, where a is ``truth`` larger than b, and the coins fell so."""
    background = Background()
    for (first, second), a_second in zip(noise, coins, strict=True):
        pair = Pair(first, second + truth, True) if a_second else Pair(first + truth, second, False)
        question.add(pair, background)
        background.add(pair)
    return math.exp(question.above.log), math.exp(question.below.log)


def means(noise: list[tuple[float, float]], truth: float, shift: float, good: str) -> list[float]:
    """The mean of each capital over every way the coins can fall."""
    every = [
        capitals(noise, coins, truth, Evidence(shift, 0.02, good))  # type: ignore[arg-type]
        for coins in itertools.product([False, True], repeat=len(noise))
    ]
    return [math.fsum(each) / len(every) for each in zip(*every, strict=True)]


@given(slots, shifts, goods)
def test_at_the_threshold_the_mean_capital_is_one(
    noise: list[tuple[float, float]], shift: float, good: str
) -> None:
    """Exactly, for any noise: also where the second moment is always the slower one."""
    assert means(noise, shift, shift, good) == pytest.approx([1, 1])
    later = [(first, second + 0.5) for first, second in noise]
    assert means(later, shift, shift, good) == pytest.approx([1, 1])


@given(slots, shifts, goods, st.integers(1, 32).map(lambda number: number / 64))
def test_on_the_other_side_of_the_threshold_it_is_less(
    noise: list[tuple[float, float]], shift: float, good: str, distance: float
) -> None:
    assert means(noise, shift - distance, shift, good)[0] <= 1 + 1e-9
    assert means(noise, shift + distance, shift, good)[1] <= 1 + 1e-9


@given(slots, st.floats(-1, 1), st.floats(-1, 1), st.floats(0, 1))
def test_the_score_grows_with_the_second_value_and_falls_with_the_first(
    noise: list[tuple[float, float]], first: float, second: float, more: float
) -> None:
    background = Background()
    for each in noise:
        background.add(Pair(*each, a_second=True))
    score = background.score(Pair(first, second, True), 0.02)
    assert background.score(Pair(first, second + more, True), 0.02) >= score - 1e-12
    assert background.score(Pair(first + more, second, True), 0.02) <= score + 1e-12


@given(slots)
def test_the_score_of_two_equal_values_is_nothing(noise: list[tuple[float, float]]) -> None:
    background = Background()
    for each in noise:
        background.add(Pair(*each, a_second=False))
    assert background.score(Pair(0.3, 0.3 + 0.02, True), 0.02) == pytest.approx(0, abs=1e-9)


def test_evidence_has_the_sign_of_the_difference() -> None:
    noise = [(0.01 * (i % 3), 0.01 * (i % 2)) for i in range(40)]
    coins = tuple(i % 3 == 0 for i in range(40))
    above, below = capitals(noise, coins, 0.1, Evidence(0.02, 0.02))
    assert above > 1000
    assert below < 1
    above, below = capitals(noise, coins, -0.1, Evidence(0.02, 0.02))
    assert above < 1
    assert below > 1000


@pytest.mark.parametrize("gamblers", [AGAINST, FOR])
def test_the_gamblers_share_one_capital(gamblers: Gamblers) -> None:
    assert sum(gamblers.shares) == pytest.approx(1)
    assert len(gamblers.shares) == len(gamblers.by_effect) + len(gamblers.plain)


@given(st.floats(0.01, 0.99), st.lists(st.booleans(), max_size=9))
def test_signs_win_nothing_where_the_limit_is_the_quantile(
    quantile: float, before: list[bool]
) -> None:
    for direction in ("above", "below"):
        after = {}
        for over in (False, True):
            evidence = SignEvidence(quantile, direction)
            for each in before:
                evidence.add(each)
            start = math.exp(evidence.log)
            evidence.add(over)
            after[over] = math.exp(evidence.log)
        mean = (1 - quantile) * after[True] + quantile * after[False]
        assert mean == pytest.approx(start)


def test_the_factors_of_the_median_are_one_plus_and_minus_the_boldness() -> None:
    evidence = SignEvidence(0.5, "above")
    evidence.add(True)
    assert math.exp(evidence.log) == pytest.approx((1.3 + 1.6 + 1.85 + 1.99) / 4)
    evidence.add(False)
    expected = (1.3 * 0.7 + 1.6 * 0.4 + 1.85 * 0.15 + 1.99 * 0.01) / 4
    assert math.exp(evidence.log) == pytest.approx(expected)
