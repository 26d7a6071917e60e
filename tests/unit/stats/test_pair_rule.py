"""Two arms against each other: a fair coin, few samples, and right in spite of drift, order and outliers."""

from __future__ import annotations

import collections
import math
from typing import Any, cast

import pytest
from hypothesis import given
from hypothesis import strategies as st
from recorded_like import drifting, run, two_arms

from pytest_vperf.stats.pair import PairRule

#: Powers of two: their inverses and logarithms are exact mirror images.
positive = st.integers(-4, 4).map(lambda exponent: 2.0**exponent)


def order(seed: int, count: int, value: float = 1.0) -> str:
    rule, arms = PairRule.at_most(1, seed=seed, max_pairs=10**6), ""
    for _ in range(2 * count):
        arms += rule.next()
        rule.add(value + len(arms) % 7)
    return arms


def test_each_pair_has_both_arms_and_a_fair_coin_orders_them() -> None:
    arms = order(1, 3000)
    pairs = [arms[i : i + 2] for i in range(0, len(arms), 2)]
    assert set(pairs) == {"ab", "ba"}
    # Fair, and without memory: every run of three orders is as frequent as every other, within five deviations.
    triples = collections.Counter(tuple(pairs[i : i + 3]) for i in range(0, len(pairs) - 2, 3))
    assert len(triples) == 8
    assert all(abs(seen - 125) < 5 * math.sqrt(125) for seen in triples.values())


def test_equal_seeds_give_equal_orders_and_others_others() -> None:
    assert order(7, 32) == order(7, 32)
    assert order(7, 32, value=5.0) == order(7, 32)
    assert len({order(seed, 32) for seed in range(20)}) == 20


def test_no_difference_holds_and_one_beyond_the_tolerance_is_refuted() -> None:
    taken: dict[float, list[int]] = {1.0: [], 1.05: [], 1.1: []}
    wanted = {1.0: "holds", 1.05: "refuted", 1.1: "refuted"}
    for ratio, counts in taken.items():
        for seed in range(40):
            rule = PairRule.at_most(1.02, seed=seed)
            counts.append(run(rule, two_arms(seed, ratio)))
            assert rule.state.decision == wanted[ratio], (ratio, seed, rule.state)
    # With about 3 % of noise in a pair. Far more would mean that the evidence is not used.
    means = {ratio: sum(counts) / len(counts) for ratio, counts in taken.items()}
    assert means[1.0] < 125
    assert means[1.05] < 75
    assert means[1.1] < 34


def test_at_the_boundary_neither_error_is_frequent() -> None:
    ends: collections.Counter[str] = collections.Counter()
    for seed in range(150):
        rule = PairRule.at_most(1.02, seed=seed, max_pairs=60, alpha=0.05, beta=0.05)
        run(rule, two_arms(seed, 1.02))
        ends[rule.state.decision] += 1
    # 5 % of 150 are 7.5; more than 17 would have a probability below 0.1 %.
    assert ends["refuted"] <= 17
    assert ends["holds"] <= 17
    assert ends["inconclusive"] >= 116


@pytest.mark.parametrize("lag", [0.8, 1.2])
def test_a_second_sample_that_is_always_slower_does_not_matter(lag: float) -> None:
    for seed in range(15):
        rule = PairRule.at_most(1.02, seed=seed)
        run(rule, two_arms(seed, 1.0, lag=lag))
        assert rule.state.decision == "holds"
        assert rule.state.estimate == pytest.approx(1, abs=0.03)
        rule = PairRule.at_most(1.02, seed=seed)
        run(rule, two_arms(seed, 1.1, lag=lag))
        assert rule.state.decision == "refuted"


def test_outliers_do_not_decide() -> None:
    """Every fifth sample of arm a is 10 times too long: the mean ratio is 2.8, the median 1."""
    counts: collections.Counter[str] = collections.Counter()

    def sample(arm: str, taken: int) -> float:
        counts[arm] += 1
        spoilt = arm == "a" and counts[arm] % 5 == 0
        return noise() * (10 if spoilt else 1)

    noise = drifting(3, 0.005)
    rule = PairRule.at_most(1.05, seed=3)
    run(rule, sample)
    assert rule.state.decision == "holds"
    assert rule.state.estimate == pytest.approx(1, abs=0.02)


def test_a_smaller_alpha_asks_for_more() -> None:
    def needed(alpha: float, seed: int) -> int:
        rule = PairRule.at_most(1.02, seed=seed, alpha=alpha)
        taken = run(rule, two_arms(seed, 1.1))
        assert rule.state.decision == "refuted"
        return taken

    usual = sum(needed(0.01, seed) for seed in range(20))
    careful = sum(needed(0.0001, seed) for seed in range(20))
    assert 1.3 < careful / usual < 3
    # A coin that fell as expected seven times has a probability of 1/128: no fewer pairs can do.
    assert min(needed(0.01, seed) for seed in range(20)) >= 2 + 2 * 7


@given(st.lists(st.tuples(positive, positive), min_size=40, max_size=40), st.integers(0, 99))
def test_at_least_is_at_most_of_the_inverse(values: list[tuple[float, float]], seed: int) -> None:
    plain = PairRule.at_most(1.1, seed=seed, max_pairs=39)
    inverse = PairRule.at_most(1 / 1.1, "at_least", seed=seed, max_pairs=39)
    for each in values:
        for _ in "ab":
            value = each[plain.next() == "b"]
            plain.add(value)
            inverse.add(1 / value)
    one, other = plain.state, inverse.state
    assert (one.decision, one.samples, one.cause) == (other.decision, other.samples, other.cause)
    if one.low is not None and other.high is not None:
        assert one.low == pytest.approx(1 / other.high)


def test_verdict_texts() -> None:
    rule = PairRule.at_most(1.02, seed=1)
    assert not rule.state.decided
    assert rule.state.reason == "0 pairs"
    run(rule, two_arms(1, 1.2))
    state = rule.state
    assert state.reason == (
        f"after {state.samples} pairs the ratio is shown to lie above the threshold, error at most 0.01"
    )
    assert state.estimate == pytest.approx(1.2, rel=0.05)
    assert state.low is not None
    assert state.estimate is not None
    assert 1.02 < state.low < state.estimate
    assert (state.forecast, state.cause, state.confidence) == (state.samples, "", 0.98)
    rule = PairRule.at_most(0.9, "at_least", seed=1)
    run(rule, two_arms(1, 1.2))
    assert rule.state.decision == "holds"
    assert "lie at or above the threshold" in rule.state.reason
    assert rule.state.low is not None
    assert rule.state.low >= 0.9


@given(st.integers(0, 200), st.sampled_from([0.9, 1.0, 1.01, 1.02, 1.05, 1.2]))
def test_the_interval_is_on_the_side_of_the_verdict(seed: int, ratio: float) -> None:
    rule = PairRule.at_most(1.02, seed=seed, max_pairs=64)
    run(rule, two_arms(seed, ratio))
    state = rule.state
    inside = [1.02 - 1e-9, 1.02 + 1e-9]
    if state.decision == "refuted":
        assert state.low is not None
        assert state.low >= inside[0]
    elif state.decision == "holds":
        assert state.high is not None
        assert state.high <= inside[1]
    else:
        assert state.low is None or state.low <= inside[1]
        assert state.high is None or state.high >= inside[0]


def test_the_interval_contains_the_truth() -> None:
    missed = 0
    for seed in range(60):
        rule = PairRule.at_most(1.5, seed=seed, max_pairs=40)
        for taken in range(82):
            rule.add(two_arms_once(rule, seed, taken))
        rule.stop("budget", "enough")
        state = rule.state
        missed += state.low is not None and state.low > 1.3
        missed += state.high is not None and state.high < 1.3
    assert missed <= 5


_samplers: dict[int, Any] = {}


def two_arms_once(rule: PairRule, seed: int, taken: int) -> float:
    sampler = _samplers.setdefault(seed, two_arms(seed, 1.3))
    value: float = sampler(rule.next(), taken)
    return value


def test_too_close_to_call_is_reported_as_soon_as_shown() -> None:
    for seed in range(5):
        rule = PairRule.at_most(1.05, seed=seed)
        run(rule, two_arms(seed, 1.05, spread=0.003))
        state = rule.state
        assert (state.decision, state.cause) == ("inconclusive", "too close to call")
        assert state.samples in (64, 96, 128, 192)
        assert state.reason == (
            f"too close to call: after {state.samples} pairs the ratio is shown to lie within "
            "2.5% of the threshold"
        )


@pytest.mark.parametrize(("b", "tolerance"), [(22, 0.1), (10, 1.0), (21, 0.05), (1020, 0.02)])
def test_exact_values_exactly_at_the_threshold_decide_nothing(b: int, tolerance: float) -> None:
    """A count or a coarse clock: the rounding of a logarithm must not decide."""
    a = {22: 20, 10: 5, 21: 20, 1020: 1000}[b]
    for seed in range(20):
        rule = PairRule.at_most(1 + tolerance, seed=seed, max_pairs=60)
        run(rule, lambda arm, taken: float(b if arm == "a" else a))
        assert rule.state.decision == "inconclusive"


def test_two_edges_share_alpha() -> None:
    """What one edge refutes at half of alpha, two refute at the whole: at the same pair."""
    edges = math.log(0.9), math.log(1.1)
    for seed in range(10):
        band = PairRule(*edges, alpha=0.02, beta=0.001, seed=seed, effect=0.02)
        edge = PairRule(None, edges[1], alpha=0.01, beta=0.001, seed=seed, effect=0.02)
        assert run(band, two_arms(seed, 1.2)) == run(edge, two_arms(seed, 1.2))
        assert band.decision == edge.decision == "refuted"


@given(st.integers(0, 60), st.sampled_from([(0.2, 0.0001), (0.05, 0.01), (0.01, 0.05)]))
def test_a_band_and_its_interval_agree(seed: int, errors: tuple[float, float]) -> None:
    alpha, beta = errors
    rule = PairRule.near(1.0, 0.05, alpha=alpha, beta=beta, seed=seed, max_pairs=40)
    run(rule, two_arms(seed, [1.0, 1.05, 1.15, 0.85][seed % 4]))
    state = rule.state
    assert state.confidence == pytest.approx(1 - 2 * max(alpha / 2, beta))
    if state.decision == "refuted":
        above = state.low is not None and state.low >= 1.05 - 1e-9
        below = state.high is not None and state.high <= 0.95 + 1e-9
        assert above or below
    elif state.decision == "holds":
        assert state.low is not None
        assert state.high is not None
        assert 0.95 - 1e-9 <= state.low <= state.high <= 1.05 + 1e-9


def test_the_estimate_lies_inside_its_interval_whatever_the_noise() -> None:
    """Noise that repeats every four samples makes the pairs' ratios fall into clumps."""
    for seed in range(40):
        rule = PairRule.at_most(1.02, seed=seed, max_pairs=80)

        def sample(arm: str, taken: int) -> float:
            level = (0.0, 0.1, 0.05, -0.1)[taken % 4] + taken % 13 / 1000
            return math.exp(level) * (1.05 if arm == "a" else 1.0)

        run(rule, sample)
        state = rule.state
        assert state.estimate is not None
        assert state.low is None or state.low <= state.estimate
        assert state.high is None or state.estimate <= state.high


def test_a_hopeless_comparison_is_given_up_early() -> None:
    rule = PairRule.at_most(1.001, seed=2, max_pairs=400)
    run(rule, two_arms(2, 1.0, spread=0.1))
    assert (rule.state.decision, rule.state.cause) == ("inconclusive", "budget")
    assert rule.state.samples < 400
    assert rule.state.reason.startswith(f"given up after {rule.state.samples} pairs: ")
    assert rule.state.reason.endswith("needed, 400 allowed")


def test_the_last_pair_allowed_ends_it() -> None:
    rule = PairRule.at_most(1.02, seed=2, max_pairs=5)
    assert run(rule, two_arms(2, 1.0)) == 2 + 2 * 5
    assert rule.state.reason == "undecided after 5 pairs, all that are allowed"
    assert rule.state.cause == "budget"


def test_a_forecast_comes_after_eight_pairs_and_grows_with_the_noise() -> None:
    def forecast(spread: float, pairs: int) -> int | None:
        rule, sample = PairRule.at_most(1.02, seed=4), two_arms(4, 1.0, spread)
        for taken in range(2 + 2 * pairs):
            rule.add(sample(rule.next(), taken))
        assert not rule.state.decided
        return rule.state.forecast

    assert forecast(0.05, 7) is None
    calm, loud = forecast(0.05, 8), forecast(0.2, 8)
    assert calm is not None
    assert loud is not None
    assert 8 < calm < loud


def test_few_pairs_that_lie_near_the_threshold_leave_hope() -> None:
    rule = PairRule.at_most(1.01, seed=4)
    for taken in range(2 + 2 * 16):
        arm = rule.next()
        level = (0.03, -0.04, 0.01, 0.05, -0.03, -0.01, 0.04, -0.05)[taken // 2 % 8]
        rule.add(math.exp(level) * 1.009 if arm == "a" else 1.0)
    state = rule.state
    assert not state.decided
    assert state.forecast is None or state.forecast > 500
    assert state.forecast_at_best is not None
    assert state.forecast_at_best < 100


def test_stopping_keeps_what_is_known() -> None:
    rule, sample = PairRule.at_most(1.02, seed=4), two_arms(4, 1.3)
    for taken in range(2 + 2 * 6):
        rule.add(sample(rule.next(), taken))
    assert rule.state.low is None
    rule.stop("budget", "the time is over")
    state = rule.state
    assert (state.decided, state.decision, state.cause) == (True, "inconclusive", "budget")
    assert state.reason == "the time is over"
    assert state.estimate == pytest.approx(1.3, rel=0.1)
    decided = PairRule.at_most(1.02, seed=4)
    run(decided, sample)
    before = decided.state
    decided.stop("budget", "the time is over")
    assert decided.state == before


def test_a_verdict_once_reached_stands() -> None:
    rule = PairRule.at_most(1.02, seed=5)
    run(rule, two_arms(5, 1.3))
    before = rule.state
    for _ in range(40):
        rule.add(1.0)
    assert rule.state == before


def test_the_first_pair_is_the_warm_up() -> None:
    rule = PairRule.at_most(1)
    warm_up = []
    for value in (5, 6):
        warm_up.append(rule.warming_up)
        rule.add(value)
    assert [*warm_up, rule.warming_up] == [True, True, False]
    assert rule.state.samples == 0
    rule.add(5)
    rule.add(6)
    assert rule.state.reason == "1 pair"


def test_identical_samples_are_suspicious() -> None:
    rule = PairRule.at_most(1.02, seed=1, max_pairs=60)
    run(rule, lambda arm, taken: 5.0)
    assert rule.state.decision == "holds"
    assert rule.state.reason.endswith("pairs are identical, which real measurements hardly are")


@pytest.mark.parametrize(
    ("ratio", "verdict"), [(0.75, "holds"), (0.65, "refuted"), (0.85, "refuted")]
)
def test_near_a_value_is_judged(ratio: float, verdict: str) -> None:
    for seed in range(15):
        rule = PairRule.near(0.75, 0.05, seed=seed)
        run(rule, two_arms(seed, ratio))
        assert rule.state.decision == verdict
        side = "inside" if verdict == "holds" else "outside"
        assert f"shown to lie {side} the band" in rule.state.reason


def test_near_an_edge_is_left_open() -> None:
    for seed in range(5):
        rule = PairRule.near(0.75, 0.05, seed=seed, max_pairs=80)
        run(rule, two_arms(seed, 0.75 * 1.05))
        assert rule.state.decision == "inconclusive"


@pytest.mark.parametrize("value", [math.nan, math.inf, 0.0, -1.0])
def test_a_sample_that_has_no_ratio_is_refused(value: float) -> None:
    rule = PairRule.at_most(1)
    with pytest.raises(ValueError, match="a sample is"):
        rule.add(value)
    assert rule.state.samples == 0


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: PairRule.at_most(0), "the threshold is 0, not a positive number"),
        (
            lambda: PairRule.at_most(1, cast("Any", "under")),
            "side is 'under', not 'at_most' or 'at_least'",
        ),
        (lambda: PairRule.at_most(1, alpha=0), "alpha is 0, not between 0 and 0.5"),
        (lambda: PairRule.at_most(1, beta=0.7), "beta is 0.7, not between 0 and 0.5"),
        (lambda: PairRule.at_most(1, max_pairs=0), "max_pairs is 0, less than 1"),
        (lambda: PairRule.at_most(1, warm_up=-1), "warm_up is -1, less than 0"),
        (lambda: PairRule.near(0, 0.1), "the value is 0, not a positive number"),
        (lambda: PairRule.near(1, 1.5), "the tolerance is 1.5, not between 0 and 1"),
    ],
)
def test_bad_arguments_are_refused(make: Any, message: str) -> None:
    with pytest.raises(ValueError, match=f"^{message}$"):
        make()
