"""One arm against a limit: signs alone, in sessions that have to agree."""

from __future__ import annotations

import math
import random
from typing import TYPE_CHECKING, Any, cast

import pytest
from hypothesis import given
from hypothesis import strategies as st
from recorded_like import drifting, run

from pytest_vperf.stats.limit import LimitRule

if TYPE_CHECKING:
    from collections.abc import Callable

    from pytest_vperf.stats.rule import Side


def rising(value: float, step: float) -> Callable[[str, int], float]:
    return lambda arm, taken: value + taken * step


def test_a_clear_case_takes_four_samples_in_each_of_three_sessions() -> None:
    rule, paused = LimitRule.at_most(100.0), []
    for session in (1, 2, 3):
        assert rule.state.decided is False
        warm_up = judged = 0
        while not rule.paused and not rule.decided:
            warm_up += rule.warming_up
            judged += not rule.warming_up
            rule.add(50.0 + judged)
        paused.append(rule.paused)
        assert (warm_up, judged) == ((5, 4) if session == 1 else (2, 4))
        rule.resume()
    assert paused == [True, True, False]
    state = rule.state
    assert (state.decision, state.samples, state.cause) == ("holds", 12, "")
    assert state.reason == (
        "in each of 3 sessions, after 12 samples in all, the median is shown at or below the threshold"
    )
    assert [len(session) for session in rule.sessions] == [4, 4, 4]
    assert state.estimate == 52.5
    assert state.low == 51
    assert state.high == 54


def test_near_the_limit_each_session_needs_evidence_for_itself() -> None:
    rule = LimitRule.at_most(100.0)
    assert run(rule, lambda arm, taken: 80.0 + taken / 100) == 3 * 8 + 9
    assert (rule.state.decision, [len(each) for each in rule.sessions]) == ("holds", [8, 8, 8])


def test_one_session_is_enough_where_asked() -> None:
    rule = LimitRule.at_most(100.0, sessions=1)
    assert run(rule, lambda arm, taken: 150.0 + taken) == 5 + 8
    assert rule.state.decision == "refuted"
    assert rule.state.reason == (
        "in one session, after 8 samples in all, the median is shown above the threshold"
    )


def test_sessions_that_disagree_decide_nothing_and_end_at_once() -> None:
    rule = LimitRule.at_most(100.0)
    taken = run(rule, lambda arm, taken: (55.0 if taken < 9 else 200.0) + taken)
    assert taken == 9 + 6
    state = rule.state
    assert (state.decision, state.cause) == ("inconclusive", "sessions disagree")
    assert state.reason == (
        "the sessions disagree: 1: holds (median 61.5), 2: refuted (median 212.5)"
    )
    assert not rule.paused


def test_a_session_that_cannot_decide_ends_it() -> None:
    rule = LimitRule.at_most(100.0, max_samples=30)
    taken = run(rule, lambda arm, taken: 99.0 if taken % 2 else 101.0)
    assert taken == 5 + 10
    state = rule.state
    assert (state.decision, state.cause) == ("inconclusive", "budget")
    assert state.reason == (
        "too close to the limit: session 1 of 3 was undecided after 10 samples, all that are allowed"
    )


def test_the_median_counts_and_not_the_mean() -> None:
    """Every fourth sample is a hundred times too long: the mean is 2,500, the median 100."""
    noise = drifting(1, 0.005)

    def sample(arm: str, taken: int) -> float:
        return noise() * (100 if taken % 4 == 0 else 1)

    rule = LimitRule.at_most(130.0)
    run(rule, sample)
    assert rule.state.decision == "holds"
    assert rule.state.estimate == pytest.approx(100, rel=0.1)


def test_at_least_is_the_mirror_image() -> None:
    for decision, value in (("holds", 250.0), ("refuted", 40.0)):
        rule = LimitRule.at_most(100.0, "at_least")
        run(rule, rising(value, 0.01))
        assert rule.state.decision == decision
        where = "at or above" if decision == "holds" else "below"
        assert rule.state.reason.endswith(f"the median is shown {where} the threshold")


def test_a_sample_at_the_limit_is_on_the_good_side() -> None:
    for side in ("at_most", "at_least"):
        rule = LimitRule.at_most(100.0, side)
        run(rule, lambda arm, taken: 100.0)
        assert rule.state.decision == "holds"
        assert rule.state.reason.endswith(
            "; all 24 samples are identical, which real measurements hardly are"
        )


@pytest.mark.parametrize(("share_above", "decision"), [(0.0, "holds"), (0.25, "refuted")])
def test_a_percentile_is_judged(share_above: float, decision: str) -> None:
    """Three quarters below the limit are no proof for p95, but against it."""

    def sample(arm: str, taken: int) -> float:
        return 300.0 + taken if share_above and taken % 4 == 3 else 50.0 + taken / 1000

    rule = LimitRule.at_most(200.0, quantile=0.95, max_samples=1000)
    run(rule, sample)
    assert rule.state.decision == decision
    assert "the p95 is shown" in rule.state.reason
    assert rule.state.samples > 24 if decision == "holds" else True


_CHANCES = st.floats(1e-4, 0.2)
_QUANTILES = st.sampled_from([0.01, 0.05, 0.25, 0.5, 0.75, 0.9, 0.95, 0.99])


@given(_QUANTILES, _CHANCES, _CHANCES, st.integers(1, 4), st.sampled_from(["at_most", "at_least"]))
def test_the_fewest_samples_of_each_verdict_are_known(
    quantile: float, alpha: float, beta: float, sessions: int, side: Side
) -> None:
    """With that many samples, all on one side and far from the limit, it decides; with one fewer it cannot."""
    low, high = 10.0, 1000.0
    options: dict[str, Any] = {
        "quantile": quantile,
        "alpha": alpha,
        "beta": beta,
        "sessions": sessions,
    }
    fewest = LimitRule.at_most(100.0, side, **options).fewest
    for decision, samples in fewest.items():
        value = low if (decision == "holds") == (side == "at_most") else high
        for most in (samples, samples - 1):
            if most < sessions:
                continue
            rule = LimitRule.at_most(100.0, side, max_samples=most, warm_up=0, **options)
            taken = run(rule, rising(value, 0.0))
            enough = most == samples
            assert rule.decision == (decision if enough else "inconclusive")
            assert taken == samples if enough else taken < samples
            assert enough or rule.cause == "too few samples"
            assert enough or f"needs at least {samples} sample" in rule.state.reason


def test_the_fewest_samples_inside_a_band_are_those_near_its_ends() -> None:
    """Where the band is narrow no value is far from both ends."""
    for tolerance, holds in ((0.05, 24), (0.5, 12)):
        rule = LimitRule.near(100.0, tolerance)
        assert rule.fewest["holds"] == holds
        rule = LimitRule.near(100.0, tolerance, max_samples=holds)
        run(rule, rising(98.0, 0.001) if holds == 24 else rising(85.0, 0.001))
        assert (rule.decision, rule.state.samples) == ("holds", holds)


@pytest.mark.parametrize(
    ("quantile", "most"), [(0.5, 512), (0.75, 512), (0.95, 2277), (0.05, 2277), (0.99, 11787)]
)
def test_where_nobody_asks_a_quantile_may_take_what_it_needs(quantile: float, most: int) -> None:
    """Half as many samples beyond the limit as may be are just few enough for each session."""
    rule = LimitRule.at_most(100.0, quantile=quantile, warm_up=0)
    assert rule.most == most
    every = round(2 / (1 - quantile))
    run(rule, lambda arm, taken: 150.0 if taken % every == every // 2 else 80.0 + taken / 1e5)
    assert rule.decision == "holds"


def test_a_limit_that_is_not_close_is_not_called_close() -> None:
    rule = LimitRule.at_most(100.0, max_samples=30)
    run(rule, lambda arm, taken: 300.0 if taken % 3 == 1 else 50.0 + taken)
    assert (rule.decision, rule.cause) == ("inconclusive", "too few samples")
    assert rule.state.reason == (
        "too few samples: session 1 of 3 was undecided after 10 samples, all that are allowed, "
        "3 of them beyond the limit"
    )


def test_too_few_samples_to_refute_are_said() -> None:
    """For a p99 of at least 100 even a hundredth of the samples above 100 are enough."""
    rule = LimitRule.at_most(100.0, "at_least", quantile=0.99, max_samples=600)
    run(rule, rising(10.0, 0.001))
    assert (rule.decision, rule.cause) == ("inconclusive", "too few samples")
    assert rule.state.reason == (
        "p99 needs at least 807 samples to be refuted, and 600 are allowed: "
        "session 1 of 3 was undecided after 200 samples"
    )


def test_near_a_value_is_judged() -> None:
    for value, decision in ((100.0, "holds"), (80.0, "refuted"), (120.0, "refuted")):
        rule = LimitRule.near(100.0, 0.05)
        run(rule, rising(value, 0.001))
        assert rule.state.decision == decision
        side = "inside" if decision == "holds" else "outside"
        assert rule.state.reason.endswith(f"the median is shown {side} the band")


def test_a_smaller_alpha_takes_more() -> None:
    usual, careful = LimitRule.at_most(1.0), LimitRule.at_most(1.0, alpha=1e-4)
    assert run(usual, lambda arm, taken: 1.2 + taken / 1000) == 3 * 8 + 9
    assert run(careful, lambda arm, taken: 1.2 + taken / 1000) == 3 * 15 + 9
    far = LimitRule.at_most(1.0, alpha=1e-4)
    assert run(far, lambda arm, taken: 5.0 + taken) == 3 * 8 + 9


def test_two_limits_share_alpha() -> None:
    """Nine samples on one side, where eight would refute one limit."""
    rule = LimitRule.near(100.0, 0.05, sessions=1)
    assert run(rule, lambda arm, taken: 120.0 + taken / 100) == 5 + 9


def test_the_interval_holds_whenever_it_stopped() -> None:
    """Normal noise around the limit itself: the truth is outside of the interval in 2 % at most."""
    outside = 0
    for seed in range(300):
        source = random.Random(seed)
        rule = LimitRule.at_most(100.0, sessions=1, max_samples=120)
        run(rule, lambda arm, taken, source=source: source.gauss(100, 5))  # type: ignore[misc]
        low, high = rule.state.low, rule.state.high
        outside += (low is not None and low > 100) or (high is not None and high < 100)
    assert outside <= 14  # more than 14 of 300 have a probability of 0.2 % at 2 %


def test_sessions_at_once_are_longer_unless_the_limit_is_far() -> None:
    near, far = LimitRule.at_most(100.0, least=40), LimitRule.at_most(100.0, least=40)
    run(near, lambda arm, taken: 80.0 + taken % 3)
    assert near.state.samples == 120
    run(far, lambda arm, taken: 60.0 + taken % 3)
    assert far.state.samples == 12


def test_stopping_keeps_what_is_known() -> None:
    rule = LimitRule.at_most(100.0)
    for value in range(12):
        rule.add(80.0 + value)
    rule.stop("budget", "the time is over")
    state = rule.state
    assert (state.decided, state.decision, state.cause) == (True, "inconclusive", "budget")
    assert (state.reason, state.samples) == ("the time is over", 7)
    assert not rule.paused


def test_samples_after_the_verdict_do_not_count() -> None:
    rule = LimitRule.at_most(100.0)
    run(rule, lambda arm, taken: 50.0 + taken)
    before = rule.state
    for _ in range(40):
        rule.add(1e6)
    assert rule.state == before


@given(st.lists(st.floats(1, 200), min_size=1, max_size=60), st.integers(1, 4))
def test_the_side_and_the_scale_do_not_matter(values: list[float], sessions: int) -> None:
    rules = [
        LimitRule.at_most(100.0, sessions=sessions, max_samples=60),
        LimitRule.at_most(-100.0, "at_least", sessions=sessions, max_samples=60),
        LimitRule.at_most(25.0, sessions=sessions, max_samples=60),
    ]
    for value in values:
        for rule, factor in zip(rules, (1, -1, 0.25), strict=True):
            rule.add(value * factor)
    assert len({(rule.decision, rule.cause, rule.paused) for rule in rules}) == 1


@pytest.mark.parametrize("value", [math.nan, math.inf])
def test_a_sample_that_is_not_a_number_is_refused(value: float) -> None:
    with pytest.raises(ValueError, match=r"a sample is .*, not a finite number"):
        LimitRule.at_most(1.0).add(value)


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (
            lambda: LimitRule.at_most(math.nan),
            "a limit is nan, not a finite number",
        ),
        (
            lambda: LimitRule.at_most(1, cast("Any", "under")),
            "side is 'under', not 'at_most' or 'at_least'",
        ),
        (lambda: LimitRule.at_most(1, quantile=1), "the quantile is 1, not between 0 and 1"),
        (lambda: LimitRule.at_most(1, sessions=0), "sessions is 0, less than 1"),
        (
            lambda: LimitRule.at_most(1, max_samples=2),
            "max_samples is 2, less than one for each session",
        ),
        (lambda: LimitRule.at_most(1, least=0), "least is 0, less than 1"),
        (lambda: LimitRule.at_most(1, warm_up=-1), "warm_up is -1, less than 0"),
        (lambda: LimitRule.at_most(1, alpha=1), "alpha is 1, not between 0 and 0.5"),
        (lambda: LimitRule.near(1, 0), "the tolerance is 0, not between 0 and 1"),
    ],
)
def test_bad_arguments_are_refused(make: Any, message: str) -> None:
    with pytest.raises(ValueError, match=f"^{message}$"):
        make()
