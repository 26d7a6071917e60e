"""Fresh runs against stored ones: ranks of run medians, and a refusal where the store is too noisy."""

from __future__ import annotations

import math
import random
from typing import Any

import pytest

from pytest_vperf.stats.baseline import BaselineRule


def stored(spread: float, seed: int = 1, size: int = 20) -> list[float]:
    source = random.Random(seed)
    return [100 * math.exp(source.gauss(0, spread)) for _ in range(size)]


def judge(rule: BaselineRule, level: float) -> BaselineRule:
    source = random.Random(5)
    while not rule.state.decided:
        rule.add(level * math.exp(source.gauss(0, 0.005)))
    return rule


@pytest.mark.parametrize(
    ("level", "decision", "words"), [(100, "holds", "within"), (125, "refuted", "beyond")]
)
def test_three_clear_runs_decide(level: float, decision: str, words: str) -> None:
    state = judge(BaselineRule(stored(0.01), 1.1), level).state
    assert (state.decision, state.samples) == (decision, 3)
    assert state.reason == f"after 3 runs the fresh ones rank {words} the threshold"
    assert state.estimate == pytest.approx(level / 100, rel=0.02)


def test_higher_is_better_the_other_way_round() -> None:
    rule = judge(BaselineRule(stored(0.01), 0.9, "at_least"), 80)
    assert rule.state.decision == "refuted"
    assert rule.state.estimate == pytest.approx(0.8, rel=0.02)
    assert judge(BaselineRule(stored(0.01), 0.9, "at_least"), 100).state.decision == "holds"


def test_runs_between_the_two_are_left_open_after_eight() -> None:
    state = judge(BaselineRule(stored(0.03), 1.1), 110).state
    assert (state.decision, state.cause, state.samples) == ("inconclusive", "budget", 8)
    assert state.reason == "undecided after 8 runs, all that are allowed"


def test_a_store_that_is_too_noisy_for_the_question_is_refused_at_once() -> None:
    rule = BaselineRule(stored(0.05), 1.02)
    state = rule.state
    assert (state.decided, state.decision, state.cause) == (True, "inconclusive", "unstable")
    assert state.reason.startswith("the stored runs differ by ")
    assert "a difference of 2.0% cannot be seen, only one of 1" in state.reason


def test_errors_are_kept_on_both_sides() -> None:
    """At the threshold itself, 200 times with alpha = beta = 5 %."""
    ends = {"holds": 0, "refuted": 0, "inconclusive": 0}
    for seed in range(200):
        source = random.Random(f"fresh {seed}")
        rule = BaselineRule(stored(0.03, seed), 1.1, alpha=0.05, beta=0.05)
        while not rule.state.decided:
            rule.add(110 * math.exp(source.gauss(0, 0.03)))
        ends[rule.state.decision] += 1
    # More than 20 of 200 would have a probability of 0.1 % at 5 %.
    assert ends["holds"] <= 20
    assert ends["refuted"] <= 20


def test_ties_are_no_evidence() -> None:
    rule = BaselineRule([100.0] * 20, 1.1)
    for _ in range(8):
        rule.add(110.0)
    assert rule.state.decision == "inconclusive"


def test_a_tie_with_the_one_bad_run_refutes_nothing() -> None:
    """Counted as half, it would: 2 of 1771 orders are as extreme; broken against it, 7 are."""
    rule = BaselineRule([100.0 * (1 + i / 1e6) for i in range(19)] + [101.0], 1.1)
    for _ in range(3):
        rule.add(111.1)
    assert not rule.state.decided


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (
            lambda: BaselineRule([1.0] * 19, 1.1),
            "19 stored runs: at least 20 are needed, over two days or more",
        ),
        (lambda: BaselineRule([0.0] * 20, 1.1), "a run's median is 0.0, not a positive number"),
        (lambda: BaselineRule([1.0] * 20, 0), "the threshold is 0, not a positive number"),
        (lambda: BaselineRule([1.0] * 20, 1.1).add(math.nan), "a run's median is nan, .*"),
    ],
)
def test_bad_arguments_are_refused(make: Any, message: str) -> None:
    with pytest.raises(ValueError, match=f"^{message}$"):
        make()
