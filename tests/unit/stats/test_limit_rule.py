"""One arm against a limit: right, never both ways, and honest about what it does not know."""

from __future__ import annotations

import math
import random
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pytest_vperf.stats.limit import LimitRule

if TYPE_CHECKING:
    from collections.abc import Iterable

    from pytest_vperf.stats.rule import Rule, State

samples = st.lists(st.floats(1, 1e3), min_size=40, max_size=40)
sides = st.sampled_from(["at_most", "at_least"])
statistics = st.sampled_from(["mean", "median"])


def feed(rule: Rule, values: Iterable[float]) -> State:
    """Sample until the rule has decided, or there is no more."""
    for value in values:
        if rule.state.decided:
            break
        rule.add(value)
    return rule.state


def noise(mean: float, spread: float, seed: int, count: int = 60) -> list[float]:
    source = random.Random(seed)
    return [source.gauss(mean, spread) for _ in range(count)]


def test_holds_far_below_the_limit_at_the_first_look() -> None:
    state = feed(LimitRule(400, "at_most"), noise(376, 3, 1))
    assert (state.decided, state.decision, state.samples) == (True, "holds", 5)
    assert state.reason == "after 5 samples the interval of the mean is at or below the threshold"
    assert state.high is not None
    assert state.high <= 400
    assert state.confidence == pytest.approx(0.98)
    assert state.forecast == 5


def test_is_refuted_far_above_it() -> None:
    state = feed(LimitRule(400, "at_most"), noise(1600, 30, 2))
    assert (state.decided, state.decision, state.samples) == (True, "refuted", 5)
    assert state.reason == "after 5 samples the interval of the mean is above the threshold"


def test_at_least_is_the_mirror_image() -> None:
    assert feed(LimitRule(8, "at_least"), noise(9, 0.1, 3)).decision == "holds"
    state = feed(LimitRule(8, "at_least"), noise(7, 0.1, 3))
    assert state.decision == "refuted"
    assert state.reason == "after 5 samples the interval of the mean is below the threshold"


def test_ends_inconclusive_on_the_limit() -> None:
    state = feed(LimitRule(400, "at_most"), noise(400, 10, 4))
    assert (state.decided, state.decision, state.samples) == (True, "inconclusive", 32)
    assert state.reason == (
        "too close to call: after all 32 samples the interval of the mean contains the threshold"
    )


def test_says_what_it_waits_for() -> None:
    rule = LimitRule(400, "at_most")
    assert rule.next() == "a"
    assert (rule.state.samples, rule.state.estimate, rule.state.low) == (0, None, None)
    assert rule.state.reason == "0 samples; the next look is at 5"
    rule.add(900)
    assert (rule.warming_up, rule.state.samples) == (False, 0)
    rule.add(380)
    assert rule.state.reason == "1 sample; the next look is at 5"
    assert (rule.state.estimate, rule.state.low) == (None, None)
    rule.add(370)
    assert (rule.state.decided, rule.state.estimate) == (False, 375)
    for value in (420, 430, 400):
        rule.add(value)
    assert rule.state.reason == "after 5 samples the interval of the mean contains the threshold"
    assert not rule.state.decided


def test_the_warm_up_does_not_count() -> None:
    rule = LimitRule(400, "at_most", warm_up=2)
    warm_up = []
    for value in (9000, 8000, 376):
        warm_up.append(rule.warming_up)
        rule.add(value)
    assert warm_up == [True, True, False]
    assert rule.state.samples == 1
    assert feed(rule, noise(376, 3, 1)).decision == "holds"


def test_identical_samples_are_decided_and_called_suspicious() -> None:
    state = feed(LimitRule(400, "at_most"), [400] * 10)
    assert (state.decision, state.low, state.high) == ("holds", 400, 400)
    assert state.reason == (
        "after 5 samples the interval of the mean is at or below the threshold; "
        "all 5 samples are identical, which a real measurement hardly is"
    )
    assert feed(LimitRule(399, "at_most"), [400] * 10).decision == "refuted"


def test_a_median_needs_more_samples_than_the_first_looks_have() -> None:
    rule = LimitRule(400, "at_most", "median")
    for value in noise(376, 3, 5, count=6):
        rule.add(value)
    assert not rule.state.decided
    assert (rule.state.low, rule.state.high) == (None, None)
    assert rule.state.reason == "5 samples are too few for an interval of the median"
    state = feed(rule, noise(376, 3, 6))
    assert (state.decision, state.samples) == ("holds", 13)


def test_forecasts_the_need() -> None:
    rule = LimitRule(400, "at_most")
    for value in [0, *[380, 415, 385, 405, 400]]:
        rule.add(value)
    assert not rule.state.decided
    assert rule.state.forecast is not None
    assert rule.state.forecast > 32
    wide = rule.state.forecast
    rule = LimitRule(400, "at_most")
    for value in [0, *[370, 405, 375, 395, 390]]:  # the same spread, further away
        rule.add(value)
    assert rule.state.forecast is not None
    assert 5 < rule.state.forecast < wide


def test_a_verdict_once_reached_stands() -> None:
    rule = LimitRule(400, "at_most")
    state = feed(rule, noise(376, 3, 1))
    for _ in range(20):
        rule.add(9000)
    assert rule.state == state


@pytest.mark.parametrize("value", [math.nan, math.inf, -math.inf])
def test_refuses_what_is_not_finite(value: float) -> None:
    rule = LimitRule(400, "at_most")
    with pytest.raises(ValueError, match="not a finite number"):
        rule.add(value)
    assert rule.warming_up, "a refused value is no sample"


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"threshold": math.nan}, "the threshold is nan, not a finite number"),
        ({"side": "near"}, "side is 'near', not 'at_most' or 'at_least'"),
        ({"statistic": "mode"}, "statistic is 'mode', not 'mean' or 'median'"),
        ({"alpha": 0}, "alpha is 0, not between 0 and 0.5"),
        ({"beta": 0.5}, "beta is 0.5, not between 0 and 0.5"),
        ({"looks": ()}, "looks are (), not rising numbers from 2 on"),
        ({"looks": (1, 5)}, "looks are (1, 5), not rising numbers from 2 on"),
        ({"looks": (5, 5)}, "looks are (5, 5), not rising numbers from 2 on"),
        ({"looks": (8, 5)}, "looks are (8, 5), not rising numbers from 2 on"),
        ({"warm_up": -1}, "warm_up is -1, less than 0"),
    ],
)
def test_refuses_arguments_without_sense(arguments: dict[str, Any], message: str) -> None:
    good: dict[str, Any] = {"threshold": 400, "side": "at_most"}
    with pytest.raises(ValueError) as caught:
        LimitRule(**{**good, **arguments})
    assert str(caught.value) == message


@given(samples, st.floats(1, 1e3), sides, statistics, st.integers(-30, 30))
def test_the_unit_does_not_matter(
    values: list[float], limit: float, side: Any, statistic: Any, power: int
) -> None:
    """A power of two changes no digit, so the two verdicts must be the same to the last case."""
    scale = 2.0**power
    plain = feed(LimitRule(limit, side, statistic), values)
    scaled = feed(LimitRule(limit * scale, side, statistic), [value * scale for value in values])
    assert (plain.decision, plain.samples, plain.reason) == (
        scaled.decision,
        scaled.samples,
        scaled.reason,
    )


@given(samples, st.floats(1, 1e3), st.floats(1, 1e3), sides, statistics)
def test_an_easier_limit_is_never_judged_worse(
    values: list[float], one: float, other: float, side: Any, statistic: Any
) -> None:
    easy, hard = (max(one, other), min(one, other))
    if side == "at_least":
        easy, hard = hard, easy
    if feed(LimitRule(hard, side, statistic), values).decision == "holds":
        assert feed(LimitRule(easy, side, statistic), values).decision != "refuted"
    if feed(LimitRule(easy, side, statistic), values).decision == "refuted":
        assert feed(LimitRule(hard, side, statistic), values).decision != "holds"


@given(samples, st.floats(1, 1e3), sides, statistics)
def test_decides_once_and_one_way(
    values: list[float], limit: float, side: Any, statistic: Any
) -> None:
    rule, decided = LimitRule(limit, side, statistic), False
    for value in values:
        rule.add(value)
        assert rule.state.decided >= decided
        decided = rule.state.decided
        if not decided:
            assert rule.state.decision == "inconclusive"
    assert decided
    state = rule.state
    assert state.samples in (5, 8, 13, 20, 32)
    other: Any = "at_least" if side == "at_most" else "at_most"
    if state.decision == "holds" and state.estimate != limit:
        assert feed(LimitRule(limit, other, statistic), values).decision != "holds"


@given(samples, st.floats(1, 1e3), sides, statistics)
def test_equal_values_give_equal_states(
    values: list[float], limit: float, side: Any, statistic: Any
) -> None:
    one, other = (feed(LimitRule(limit, side, statistic), values) for _ in range(2))
    assert one == other


@pytest.mark.parametrize("statistic", ["mean", "median"])
@pytest.mark.parametrize("side", ["at_most", "at_least"])
def test_the_errors_at_the_limit_stay_within_what_is_promised(side: Any, statistic: Any) -> None:
    """The truth is the limit itself: the hardest true claim, and the least untrue one."""
    wrong = {"holds": 0, "refuted": 0, "inconclusive": 0}
    for seed in range(400):
        rule = LimitRule(100, side, statistic, alpha=0.05, beta=0.05)
        wrong[feed(rule, noise(100, 8, seed)).decision] += 1
    # 0.05 of 400 is 20; Bonferroni is on the safe side, and 3 standard deviations are 13.
    assert wrong["refuted"] <= 33
    assert wrong["holds"] <= 33


def test_finds_a_difference_of_three_standard_deviations() -> None:
    found = [feed(LimitRule(100, "at_most"), noise(124, 8, seed)).decision for seed in range(100)]
    assert found.count("refuted") >= 99
    assert found.count("holds") == 0


def test_between_two_looks_the_interval_is_that_of_the_last_one() -> None:
    rule = LimitRule(400, "at_most", warm_up=0, looks=(3, 6))
    seen = []
    for value in (390, 400, 410, 380, 420):
        rule.add(value)
        seen.append((rule.state.low, rule.state.high))
    assert seen[:2] == [(None, None)] * 2
    assert seen[2] != (None, None)
    assert seen[3:] == [seen[2]] * 2
    assert rule.state.estimate == 400
