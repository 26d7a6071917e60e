"""Limits for future runs: known factors, properties of all figures, and how often the runs stay within."""

from __future__ import annotations

import math
import random
from statistics import median
from typing import TYPE_CHECKING

import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.stats import t

from pytest_vperf.stats.limit import LimitRule
from pytest_vperf.stats.prediction import LEAST_RUNS, RESOLUTION, factor, predict

if TYPE_CHECKING:
    from pytest_vperf.stats.rule import Side

SIDES: list[Side] = ["at_most", "at_least"]
#: Of so few runs more than 10 % gives limits that are refused.
figures = st.builds(
    lambda values, centre: [centre * each for each in values],
    st.lists(st.floats(1, 1.1), min_size=LEAST_RUNS, max_size=12),
    st.floats(1e-6, 1e9),
)


@pytest.mark.parametrize("runs", [2, 3, 5, 10, 40])
@pytest.mark.parametrize("confidence", [0.9, 0.99, 0.999])
def test_for_one_more_run_the_factor_is_students(runs: int, confidence: float) -> None:
    known = t.ppf(confidence, runs - 1) * math.sqrt(1 + 1 / runs)
    assert factor(runs, 1, confidence) == pytest.approx(known, rel=1e-3)


@pytest.mark.parametrize(("runs", "next_runs"), [(3, 5), (5, 20), (10, 20), (10, 1000)])
def test_the_factor_of_several_runs_is_more_than_of_one_and_less_than_bonferroni_s(
    runs: int, next_runs: int
) -> None:
    bonferroni = t.ppf(1 - 0.01 / next_runs, runs - 1) * math.sqrt(1 + 1 / runs)
    assert factor(runs, 1, 0.99) < factor(runs, next_runs, 0.99) < bonferroni


@pytest.mark.parametrize(
    ("runs", "next_runs", "confidence"), [(3, 20, 0.95), (5, 20, 0.99), (8, 3, 0.9)]
)
def test_the_factor_keeps_its_confidence_for_normal_samples(
    runs: int, next_runs: int, confidence: float
) -> None:
    """The factor against what it is defined by, in 20 000 draws; within four standard errors."""
    import numpy as np

    draw = np.random.default_rng(7)
    known = draw.normal(size=(20_000, runs))
    limit = known.mean(axis=1) + factor(runs, next_runs, confidence) * known.std(axis=1, ddof=1)
    within = float((draw.normal(size=(20_000, next_runs)).max(axis=1) <= limit).mean())
    error = math.sqrt(confidence * (1 - confidence) / 20_000)
    assert within == pytest.approx(confidence, abs=4 * error)


@given(figures, st.sampled_from(SIDES))
def test_all_figures_are_within_the_resolution_at_least(values: list[float], side: Side) -> None:
    found = predict(values, side)
    ratio = found.limit / found.centre if side == "at_most" else found.centre / found.limit
    assert ratio >= (1 + RESOLUTION) * (1 - 1e-9)
    assert min(values) * (1 - 1e-9) <= found.centre <= max(values) * (1 + 1e-9)


@given(figures, st.sampled_from(SIDES), st.floats(1e-3, 1e3))
def test_the_unit_makes_no_difference(values: list[float], side: Side, scale: float) -> None:
    one, other = predict(values, side), predict([scale * each for each in values], side)
    if max(values) / min(values) > 1 + 1e-6:  # below, what is left is rounding
        assert other.limit == pytest.approx(scale * one.limit, rel=1e-6)


@given(figures)
def test_the_limit_of_the_inverse_is_the_inverse_limit(values: list[float]) -> None:
    most = predict(values, "at_most").limit
    least = predict([1 / each for each in values], "at_least").limit
    assert most * least == pytest.approx(1, rel=1e-6)


@given(figures, st.sampled_from(SIDES))
def test_more_confidence_and_more_runs_to_come_widen_it(values: list[float], side: Side) -> None:
    wide = [
        predict(values, side, next_runs=number, confidence=share).margin
        for number, share in ((1, 0.9), (1, 0.95), (5, 0.95), (20, 0.99))
    ]
    assert wide == sorted(wide)


def test_equal_figures_get_the_resolution_as_margin() -> None:
    found = predict([0.1 + 0.2] * 5, "at_most")
    assert (found.spread, found.floored) == (0.0, True)
    assert found.limit == pytest.approx(0.3 * 1.02)
    assert predict([812] * 3, "at_least").limit == pytest.approx(812 / 1.02)


@pytest.mark.parametrize(("side", "limit"), [("at_most", 11), ("at_least", 9)])
def test_one_step_of_a_coarse_measurement_is_within(side: Side, limit: float) -> None:
    assert predict([10] * 5, side, step=1).limit == pytest.approx(limit)


def test_a_single_step_leaves_a_positive_limit() -> None:
    assert predict([1] * 3, "at_least", step=1).limit == pytest.approx(0.5)


@pytest.mark.parametrize(
    ("values", "message"),
    [
        ([1.0, 5.0, 25.0], "from 1 to 25, give a limit more than 10 times away"),
        ([1.0, 2.0], "2 runs are too few: a limit takes 3"),
        ([1.0, 2.0, 0.0], "a run's figure is 0.0, not a positive number"),
        ([1.0, 2.0, math.nan], "a run's figure is nan, not a positive number"),
    ],
)
def test_figures_without_a_limit_are_refused(values: list[float], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        predict(values, "at_most")


def test_an_invalid_confidence_is_refused() -> None:
    with pytest.raises(ValueError, match=r"not between 0\.5 and 1"):
        factor(5, 20, 0.4)


class Machine:
    """Samples with a level of their run, one of their session, and noise, all of them log-normal."""

    def __init__(self, seed: int, run: float, session: float, sample: float) -> None:
        self._random = random.Random(seed)
        self._spreads = run, session, sample

    def sessions(self, count: int = 3) -> list[float]:
        """A run: the levels of its sessions."""
        run, session, _ = self._spreads
        level = self._random.gauss(0, run)
        return [level + self._random.gauss(0, session) for _ in range(count)]

    def sample(self, level: float, slower: float = 1.0) -> float:
        return 100 * slower * math.exp(level + self._random.gauss(0, self._spreads[2]))

    def figure(self) -> float:
        """The median of a run's 24 samples."""
        return median(self.sample(level) for level in self.sessions() for _ in range(8))

    def judge(self, limit: float, slower: float = 1.0) -> str:
        """A later run with the limit that a calibration has set."""
        rule = LimitRule.at_most(limit)
        for level in self.sessions():
            rule.resume()
            while not (rule.paused or rule.decided):
                rule.add(self.sample(level, slower))
        return rule.decision


MACHINES = [
    pytest.param(0.05, 0.03, 0.10, id="runs"),
    pytest.param(0.0, 0.0, 0.10, id="samples"),
    pytest.param(0.0, 0.10, 0.02, id="sessions"),
    pytest.param(0.10, 0.0, 0.0, id="levels"),
]


@pytest.mark.parametrize(("run", "session", "sample"), MACHINES)
def test_the_next_twenty_runs_stay_within_the_limit_as_often_as_promised(
    run: float, session: float, sample: float
) -> None:
    """99 % asked for; of 400 calibrations at most 11 may fail: with 1 % each, more has a chance of 0.1 %."""
    machine = Machine(11, run, session, sample)
    beyond = 0
    for _ in range(400):
        limit = predict([machine.figure() for _ in range(5)], "at_most").limit
        beyond += any(machine.figure() > limit for _ in range(20))
    assert beyond <= 11


@pytest.mark.parametrize(("run", "session", "sample"), MACHINES)
def test_nothing_is_refuted_in_twenty_runs_after_a_calibration(
    run: float, session: float, sample: float
) -> None:
    """An unchanged metric, judged as the plug-in judges it; a claim alone in its run, which is the least careful."""
    machine = Machine(13, run, session, sample)
    refuted = 0
    for _ in range(40):
        limit = predict([machine.figure() for _ in range(5)], "at_most").limit
        refuted += sum(machine.judge(limit) == "refuted" for _ in range(20))
    assert refuted == 0


def test_a_metric_that_became_twice_as_slow_is_refuted() -> None:
    machine = Machine(17, 0.03, 0.02, 0.05)
    limit = predict([machine.figure() for _ in range(5)], "at_most").limit
    assert limit < 160
    assert [machine.judge(limit, slower=2) for _ in range(20)] == ["refuted"] * 20
