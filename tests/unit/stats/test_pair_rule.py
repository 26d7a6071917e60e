"""Two arms against each other: interleaved, balanced, and right in spite of drift and order."""

from __future__ import annotations

import math
import random
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pytest_vperf.stats.pair import PairRule

if TYPE_CHECKING:
    from collections.abc import Callable

    from pytest_vperf.stats.rule import Arm, Rule, State

sides = st.sampled_from(["at_most", "at_least"])
pairs = st.lists(st.tuples(st.floats(0.1, 10), st.floats(0.1, 10)), min_size=34, max_size=34)


def run(rule: Rule, sample: Callable[[Arm, int], float]) -> State:
    """Sample until the rule has decided; ``sample`` gets the arm and how many samples there were before."""
    taken = 0
    while not rule.state.decided:
        rule.add(sample(rule.next(), taken))
        taken += 1
    return rule.state


def fed(rule: Rule, values: list[tuple[float, float]]) -> State:
    return run(rule, lambda arm, taken: values[taken // 2][0 if arm == "a" else 1])


def noisy(ratio: float, spread: float, seed: int) -> Callable[[Arm, int], float]:
    """Arm a takes ``ratio`` times what b does; the level drifts, and the second of a pair is slower."""
    source = random.Random(seed)

    def sample(arm: Arm, taken: int) -> float:
        level = 100 * (1 + taken / 50) * (1.1 if taken % 2 else 1)
        return level * (ratio if arm == "a" else 1) * math.exp(source.gauss(0, spread))

    return sample


def order(seed: int, count: int, warm_up: int = 1) -> str:
    rule, arms = PairRule(1, "at_most", warm_up=warm_up, seed=seed), ""
    for _ in range(2 * count):
        arms += rule.next()
        rule.add(1 + len(arms) / 1000)
    return arms


@given(st.integers(0, 2**63), st.integers(0, 3))
def test_every_block_of_four_pairs_is_balanced(seed: int, warm_up: int) -> None:
    arms = order(seed, 20 + warm_up, warm_up)
    pairs_ = [arms[i : i + 2] for i in range(0, len(arms), 2)]
    assert set(pairs_) <= {"ab", "ba"}
    judged = pairs_[warm_up:]
    for block in range(0, 20, 4):
        assert judged[block : block + 4].count("ab") == 2


def test_equal_seeds_give_equal_orders_and_others_others() -> None:
    assert order(7, 32) == order(7, 32)
    assert len({order(seed, 32) for seed in range(20)}) == 20


def test_a_real_difference_holds_or_is_refuted() -> None:
    state = run(PairRule(1, "at_most", seed=1), noisy(0.75, 0.02, 1))
    assert (state.decision, state.samples) == ("holds", 8)
    assert state.reason == "after 8 pairs the interval of the ratio is at or below the threshold"
    assert state.estimate == pytest.approx(0.75, rel=0.03)
    assert state.low is not None
    assert state.high is not None
    assert 0 < state.low < 0.75 < state.high < 1
    assert state.confidence == pytest.approx(0.98)
    state = run(PairRule(1, "at_most", seed=1), noisy(1.3, 0.02, 1))
    assert (state.decision, state.samples) == ("refuted", 8)
    assert state.reason == "after 8 pairs the interval of the ratio is above the threshold"


def test_at_least_is_the_mirror_image() -> None:
    assert run(PairRule(0.7, "at_least"), noisy(0.75, 0.005, 2)).decision == "holds"
    assert run(PairRule(0.8, "at_least"), noisy(0.7, 0.005, 2)).decision == "refuted"


def test_no_difference_is_too_close_to_call() -> None:
    state = run(PairRule(1, "at_most"), noisy(1, 0.02, 3))
    assert (state.decision, state.samples) == ("inconclusive", 32)
    assert state.reason == (
        "too close to call: after all 32 pairs the interval of the ratio contains the threshold"
    )


def test_the_estimate_is_the_geometric_mean_ratio() -> None:
    rule = PairRule(1, "at_most", warm_up=0)
    for a, b in [(2.0, 1.0), (8.0, 1.0)]:
        for _ in "ab":
            rule.add(a if rule.next() == "a" else b)
    assert rule.state.estimate == pytest.approx(4)


def test_the_first_pair_is_the_warm_up() -> None:
    rule = PairRule(1, "at_most")
    warm_up = []
    for value in (5, 6):
        warm_up.append(rule.warming_up)
        rule.add(value)
    assert [*warm_up, rule.warming_up] == [True, True, False]
    assert rule.state.samples == 0
    rule.add(5)
    assert rule.state.samples == 0
    assert rule.state.reason == "0 pairs; the next look is at 8"
    rule.add(6)
    assert rule.state.samples == 1
    assert rule.state.reason == "1 pair; the next look is at 8"


def test_identical_ratios_are_decided_and_called_suspicious() -> None:
    state = run(PairRule(1, "at_most"), lambda arm, taken: 5.0)
    assert (state.decision, state.estimate, state.low, state.high) == ("holds", 1, 1, 1)
    assert state.reason == (
        "after 8 pairs the interval of the ratio is at or below the threshold; "
        "all 8 pairs are identical, which a real measurement hardly is"
    )
    assert run(PairRule(1, "at_most"), lambda arm, _: 6 if arm == "a" else 5).decision == "refuted"


def test_ratios_beyond_a_float_do_not_crash() -> None:
    rule = PairRule(1, "at_most", warm_up=0, looks=(3, 8))
    for a, b in [(5e-324, 1.7e308), (1.7e308, 5e-324), (1.0, 1.0)]:
        for _ in "ab":
            rule.add(a if rule.next() == "a" else b)
    assert (rule.state.low, rule.state.high) == (0, None)
    assert rule.state.estimate == pytest.approx(1)


@pytest.mark.parametrize(
    ("value", "message"),
    [
        (math.nan, "a sample is nan, not a finite number"),
        (math.inf, "a sample is inf, not a finite number"),
        (0.0, "a sample is 0.0: a ratio needs positive numbers"),
        (-1.0, "a sample is -1.0: a ratio needs positive numbers"),
    ],
)
def test_refuses_what_has_no_ratio(value: float, message: str) -> None:
    rule = PairRule(1, "at_most")
    rule.add(1)
    arm = rule.next()
    with pytest.raises(ValueError) as caught:
        rule.add(value)
    assert str(caught.value) == message
    assert rule.next() == arm, "a refused value is no sample"


@pytest.mark.parametrize("threshold", [0.0, -1.0, math.nan, math.inf])
def test_refuses_a_threshold_that_is_no_ratio(threshold: float) -> None:
    with pytest.raises(ValueError, match="not a positive number"):
        PairRule(threshold, "at_most")


def test_a_verdict_once_reached_stands() -> None:
    rule = PairRule(1, "at_most")
    state = run(rule, noisy(0.75, 0.02, 1))
    for _ in range(40):
        rule.add(9000 if rule.next() == "a" else 1)
    assert rule.state == state


@given(pairs, st.floats(0.2, 5), sides, st.integers(0, 99), st.integers(-20, 20))
def test_the_unit_does_not_matter(
    values: list[tuple[float, float]], limit: float, side: Any, seed: int, power: int
) -> None:
    scaled = [(a * 2.0**power, b * 2.0**power) for a, b in values]
    one = fed(PairRule(limit, side, seed=seed), values)
    other = fed(PairRule(limit, side, seed=seed), scaled)
    # Logarithms round, so a value on the limit may fall on either side; the figures may not differ.
    assert one.estimate == pytest.approx(other.estimate)
    assert {one.decision, other.decision} != {"holds", "refuted"} or math.isclose(
        one.estimate or 0, limit
    )


@given(pairs, st.floats(0.2, 5), st.floats(0.2, 5), sides, st.integers(0, 99))
def test_an_easier_ratio_is_never_judged_worse(
    values: list[tuple[float, float]], one: float, other: float, side: Any, seed: int
) -> None:
    easy, hard = max(one, other), min(one, other)
    if side == "at_least":
        easy, hard = hard, easy
    if fed(PairRule(hard, side, seed=seed), values).decision == "holds":
        assert fed(PairRule(easy, side, seed=seed), values).decision != "refuted"


@given(pairs, st.floats(0.2, 5), sides, st.integers(0, 99))
def test_decides_once_and_equally(
    values: list[tuple[float, float]], limit: float, side: Any, seed: int
) -> None:
    one = fed(PairRule(limit, side, seed=seed), values)
    assert one.decided
    assert one.samples in (8, 12, 16, 24, 32)
    assert one == fed(PairRule(limit, side, seed=seed), values)


def test_the_errors_at_the_limit_stay_within_what_is_promised() -> None:
    """No true difference; drift, and an order effect of 10 % that no fixed order would survive."""
    found = [
        run(PairRule(1, "at_most", alpha=0.05, beta=0.05, seed=seed), noisy(1, 0.02, seed)).decision
        for seed in range(300)
    ]
    # 0.05 of 300 is 15, and 3 standard deviations are 11.
    assert found.count("refuted") <= 26
    assert found.count("holds") <= 26


def test_finds_a_difference_of_ten_per_cent() -> None:
    found = [
        run(PairRule(1, "at_most", seed=seed), noisy(1.1, 0.02, seed)).decision
        for seed in range(100)
    ]
    assert found.count("refuted") >= 90
    assert found.count("holds") == 0
