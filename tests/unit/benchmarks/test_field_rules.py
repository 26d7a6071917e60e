"""The decision rules of tools in use, on data with known answers."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pytest
from scipy.stats import ks_2samp, mannwhitneyu, permutation_test
from verdicts.decisions import HOLDS, REFUTED, UNDECIDED
from verdicts.field import FIELD
from verdicts.field.benchstat import benchstat
from verdicts.field.checkmetrics import checkmetrics
from verdicts.field.firecracker import firecracker, permutation_p
from verdicts.field.means import mean_below, ratio_of_means
from verdicts.field.paired_t import paired_t
from verdicts.field.pinpoint import high_threshold, p_value, pinpoint
from verdicts.field.pytest_benchmark import pytest_benchmark

if TYPE_CHECKING:
    from collections.abc import Callable

    from numpy.typing import NDArray
    from verdicts.source import Arm


class Made:
    """A source whose arms are functions of the call number, counted over both arms."""

    rows = 1

    def __init__(self, a: Callable[[int], float], b: Callable[[int], float]) -> None:
        self.arms = {"a": a, "b": b}
        self.order = ""

    def take(self, arm: Arm, count: int) -> NDArray[np.float64]:
        begin = len(self.order)
        self.order += arm * count
        return np.array([[self.arms[arm](begin + i) for i in range(count)]])


def steady(call: int) -> float:
    """Values near 1 without ties; the means of neighbours agree to 0.1 %."""
    return float(1.0 + 0.01 * np.sin(1.0 + 2.3 * call))


def slower(factor: float) -> Callable[[int], float]:
    return lambda call: factor * steady(call)


@pytest.mark.parametrize(
    ("factor", "verdict"), [(1.0, HOLDS), (1.04, HOLDS), (1.06, REFUTED), (0.94, REFUTED)]
)
def test_checkmetrics_takes_a_band_of_five_percent_around_the_stored_mean(
    factor: float, verdict: int
) -> None:
    source = Made(steady, slower(factor))
    made = checkmetrics(source, 0.02)
    assert (made.verdicts.tolist(), made.samples.tolist()) == ([verdict], [40])
    assert source.order == "a" * 20 + "b" * 20


@pytest.mark.parametrize(("factor", "verdict"), [(1.04, HOLDS), (1.06, REFUTED), (0.5, HOLDS)])
def test_pytest_benchmark_fails_what_is_slower_by_five_percent(factor: float, verdict: int) -> None:
    source = Made(steady, slower(factor))
    made = pytest_benchmark(source, 0.02)
    assert (made.verdicts.tolist(), made.samples.tolist()) == ([verdict], [200])
    assert source.order == "a" * 100 + "b" * 100


@pytest.mark.parametrize(("factor", "verdict"), [(1.0, HOLDS), (1.03, REFUTED), (0.97, HOLDS)])
def test_benchstat_fails_what_is_significantly_slower(factor: float, verdict: int) -> None:
    made = benchstat(Made(steady, slower(factor)), 0.02)
    assert (made.verdicts.tolist(), made.samples.tolist()) == ([verdict], [40])


def test_firecracker_stops_at_the_first_iteration_that_does_not_fail() -> None:
    source = Made(steady, slower(1.04))
    made = firecracker(source, 0.02)
    assert (made.verdicts.tolist(), made.samples.tolist()) == ([HOLDS], [100])
    assert source.order == "a" * 50 + "b" * 50


def test_firecracker_fails_what_fails_four_times_with_the_order_changed() -> None:
    source = Made(steady, slower(1.06))
    made = firecracker(source, 0.02)
    assert (made.verdicts.tolist(), made.samples.tolist()) == ([REFUTED], [400])
    assert source.order == ("a" * 50 + "b" * 50 + "b" * 50 + "a" * 50) * 2


def test_firecracker_adds_the_samples_of_its_iterations() -> None:
    # Slower by 8 % at first, and not at all later: 8, then 4 % overall.
    made = firecracker(
        Made(steady, lambda call: (1.08 if call < 100 else 1.0) * steady(call)), 0.02
    )
    assert (made.verdicts.tolist(), made.samples.tolist()) == ([HOLDS], [200])


def test_the_permutation_test_is_that_of_scipy() -> None:
    generator = np.random.default_rng(1)
    a = generator.lognormal(size=(8, 50))
    b = generator.lognormal(mean=0.25, size=(8, 50))
    own = permutation_p(a, b)
    for row in range(8):
        known = permutation_test(
            (a[row], b[row]),
            lambda x, y, axis: y.mean(axis=axis) - x.mean(axis=axis),
            n_resamples=9999,
            vectorized=True,
            rng=np.random.default_rng(2),
        ).pvalue
        assert own[row] == pytest.approx(known, abs=0.05)


def test_pinpoint_takes_ten_at_a_time_until_it_knows() -> None:
    source = Made(steady, slower(1.05))
    made = pinpoint(source, 0.02)
    assert (made.verdicts.tolist(), made.samples.tolist()) == ([REFUTED], [20])
    assert source.order == "a" * 10 + "b" * 10
    source = Made(steady, slower(1.004))
    made = pinpoint(source, 0.005)
    assert made.samples[0] == len(source.order) > 20
    assert source.order.startswith("a" * 10 + "b" * 10 + "a" * 10)


def test_pinpoint_always_ends() -> None:
    generator = np.random.default_rng(1)
    for _ in range(20):
        source = Made(lambda _: generator.lognormal(), lambda _: generator.lognormal())
        assert pinpoint(source, 0.0001).verdicts[0] != UNDECIDED


def test_the_p_values_of_pinpoint_are_the_smaller_of_two_known_tests() -> None:
    generator = np.random.default_rng(1)
    a, b = generator.normal(size=(30, 20)), generator.normal(0.5, 2.0, size=(30, 20))
    own = p_value(a, b)
    for row in range(30):
        rank = mannwhitneyu(a[row], b[row], method="asymptotic").pvalue
        smirnov = ks_2samp(a[row], b[row], method="exact").pvalue
        assert own[row] == pytest.approx(min(rank, smirnov), abs=0.08)


def test_the_high_threshold_of_pinpoint_falls_with_attempts_and_magnitude() -> None:
    sizes = np.array([0.3, 0.5, 1.0, 2.0])
    few, many = high_threshold(sizes, 10), high_threshold(sizes, 40)
    assert (np.diff(few) <= 0).all()
    assert (many <= few).all()
    assert many[-1] < 0.01 < few[0]


@pytest.mark.parametrize(("factor", "verdict"), [(1.0, HOLDS), (1.02, UNDECIDED), (1.05, REFUTED)])
def test_the_paired_t_decides_by_the_tolerance(factor: float, verdict: int) -> None:
    source = Made(steady, slower(factor))
    made = paired_t(source, 0.02)
    assert (made.verdicts.tolist(), made.samples.tolist()) == ([verdict], [100])
    assert source.order == "ab" * 50


@pytest.mark.parametrize(("limit", "verdict"), [(1.02, HOLDS), (0.98, REFUTED)])
def test_a_mean_is_held_against_a_limit(limit: float, verdict: int) -> None:
    made = mean_below(Made(steady, steady), limit)
    assert (made.verdicts.tolist(), made.samples.tolist()) == ([verdict], [20])


@pytest.mark.parametrize(("factor", "verdict"), [(0.75, HOLDS), (0.70, REFUTED), (0.80, REFUTED)])
def test_a_ratio_of_means_is_held_against_a_band(factor: float, verdict: int) -> None:
    made = ratio_of_means(Made(steady, slower(factor)), 0.75, 0.05)
    assert (made.verdicts.tolist(), made.samples.tolist()) == ([verdict], [40])


@pytest.mark.parametrize("name", FIELD)
def test_rules_decide_each_row_for_itself(name: str) -> None:
    generator = np.random.default_rng(1)
    values = generator.lognormal(sigma=0.05, size=(6, 1000))
    factors = np.array([1.0, 1.02, 1.05, 1.08, 1.2, 1.0])

    class Rows:
        def __init__(self, chosen: list[int]) -> None:
            self.chosen, self.rows, self.calls = chosen, len(chosen), 0

        def take(self, arm: Arm, count: int) -> NDArray[np.float64]:
            found = values[self.chosen, self.calls : self.calls + count]
            self.calls += count
            return found * factors[self.chosen][:, None] if arm == "b" else found

    together = FIELD[name](Rows([*range(6)]), 0.02)
    for row in range(6):
        alone = FIELD[name](Rows([row]), 0.02)
        assert together.verdicts[row] == alone.verdicts[0]
        assert together.samples[row] == alone.samples[0]
