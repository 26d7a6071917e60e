"""What a comparison still takes: what is planned with is steadier than what is forecast."""

from __future__ import annotations

import math
import random
from typing import TYPE_CHECKING

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pytest_vperf.stats.outlook import pairs_needed, pairs_to_go
from pytest_vperf.stats.pair import PairRule

if TYPE_CHECKING:
    from pytest_vperf.stats.rule import Side

POSITIVE = st.floats(1e-4, 10)
ENOUGH = math.log(100)


def rule_after(pairs: int, noise: float, seed: int, ratio: float = 1.0) -> PairRule:
    rule, source = PairRule.at_most(1.05, seed=seed, warm_up=0), random.Random(seed)
    for _ in range(2 * pairs):
        level = ratio if rule.next() == "a" else 1.0
        rule.add(level * source.lognormvariate(0, noise))
    return rule


def well_ordered(values: list[float]) -> float:
    """The share of pairs that are in ascending order."""
    pairs = [a < b for i, a in enumerate(values) for b in values[i + 1 :]]
    return sum(pairs) / len(pairs)


def test_few_pairs_order_claims_as_all_pairs_would() -> None:
    """What a verdict takes grows with the square of the noise; the forecast after 16 pairs hardly shows it."""
    noises = [0.08 * 5 ** (number / 99) for number in range(100)]
    states = [rule_after(16, noise, seed).state for seed, noise in enumerate(noises)]
    planned = [each.to_go for each in states if each.to_go is not None]
    likely = [each.forecast or 1e9 for each in states]
    assert len(planned) == len(noises)
    assert well_ordered(planned) > 0.75
    assert well_ordered(likely) < 0.65


def test_of_few_pairs_it_is_what_clear_ones_take_and_nothing_is_left_after_a_verdict() -> None:
    assert rule_after(0, 0.1, 1).state.to_go == 16
    assert rule_after(7, 0.1, 1).state.to_go == 9
    decided = rule_after(400, 0.01, 1)
    assert decided.decided
    assert decided.state.to_go is None


@pytest.mark.parametrize("factor", [0.8, 1.3])
@pytest.mark.parametrize(
    "rule", [(1.05, "at_most"), (0.95, "at_least"), (1.0, "at_most")], ids=["time", "rate", "order"]
)
def test_what_is_nearly_shown_takes_little_more(rule: tuple[float, Side], factor: float) -> None:
    """Whether it will hold or be refuted."""
    judged, source, to_go = PairRule.at_most(*rule), random.Random(1), []
    while not judged.decided:
        level = factor if judged.next() == "a" else 1.0
        judged.add(level * source.lognormvariate(0, 0.3))
        if judged.state.samples >= 8 and judged.state.to_go is not None:
            to_go.append(judged.state.to_go)
    assert to_go[-1] < to_go[0]


@given(st.integers(8, 1000), POSITIVE, st.floats(-5, 5), st.none() | st.floats(-2, 2), POSITIVE)
def test_it_is_a_number_of_pairs(
    count: int, spread: float, distance: float, usual: float | None, missing: float
) -> None:
    found = pairs_to_go(count, spread, distance, usual, for_it=missing, against_it=missing)
    assert found >= 1
    more = pairs_to_go(count, spread, distance, usual, for_it=2 * missing, against_it=2 * missing)
    assert more >= found


@given(POSITIVE, st.floats(0.01, 1), st.booleans())
def test_of_many_pairs_it_is_the_forecast(spread: float, distance: float, holds: bool) -> None:
    known = pairs_to_go(
        10**9, spread, distance if holds else -distance, 0.05, for_it=ENOUGH, against_it=ENOUGH
    )
    whole = pairs_needed(spread, distance, 0.01) - 8
    assert known == pytest.approx(max(1, whole), rel=0.05)
