"""The two phases of a sweep: known knees are found, straight lines are none, and intervals keep their promise."""

from __future__ import annotations

import math
import random
from typing import TYPE_CHECKING

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from pytest_vperf.stats.plateau import FLAT, Curve, fit, sen

if TYPE_CHECKING:
    from collections.abc import Callable

LOADS = (25.0, 50.0, 75.0, 100.0, 130.0, 200.0, 400.0)
LEVEL = 90.0


def knee(load: float) -> float:
    return min(load, LEVEL)


def draw(
    truth: Callable[[float], float],
    seed: int,
    *,
    spread: float = 0.02,
    rounds: int = 6,
    heavy: bool = False,
    loads: tuple[float, ...] = LOADS,
) -> dict[float, list[float]]:
    """Samples with noise that grows with the value; heavy: Student's law with two degrees of freedom."""
    chance = random.Random(seed)

    def noise() -> float:
        scale = math.sqrt(chance.gammavariate(1, 1)) if heavy else 1.0
        return math.exp(spread * chance.gauss(0, 1) / scale)

    return {load: [truth(load) * noise() for _ in range(rounds)] for load in loads}


def fitted(samples: dict[float, list[float]], error: float = 0.005) -> Curve:
    return fit(samples, error, error, 0.01)


def test_a_known_knee_is_found() -> None:
    curve = fitted(draw(knee, 1))
    assert curve.shape == "plateau"
    assert curve.flat == (100.0, 130.0, 200.0, 400.0)
    assert curve.level.estimate == pytest.approx(LEVEL, rel=0.02)
    assert curve.knee == pytest.approx(LEVEL, rel=0.05)
    assert curve.knee_low is not None
    assert curve.knee_high is not None
    assert 75 < curve.knee_low <= LEVEL <= curve.knee_high < 110


def test_without_noise_the_fit_is_exact() -> None:
    samples = {load: [knee(load)] * 3 for load in LOADS}
    curve = fitted(samples)
    assert (curve.shape, curve.level.estimate) == ("plateau", LEVEL)
    assert curve.knee == pytest.approx(LEVEL, rel=0.02)


def test_a_line_with_another_slope_has_its_knee_too() -> None:
    curve = fitted(draw(lambda load: min(3 * load**0.7, 60.0), 2))
    assert curve.shape == "plateau"
    assert curve.level.estimate == pytest.approx(60, rel=0.02)
    assert curve.knee == pytest.approx((60 / 3) ** (1 / 0.7), rel=0.1)


def test_a_flat_line_has_no_known_knee() -> None:
    curve = fitted(draw(lambda load: LEVEL, 3))
    assert curve.shape == "plateau"
    assert curve.flat == LOADS
    assert curve.knee is None
    assert curve.knee_low is None


def test_a_curve_that_falls_again_has_no_plateau() -> None:
    curve = fitted(draw(lambda load: min(load, LEVEL * (LEVEL / load) ** 0.6), 4, rounds=10))
    assert curve.shape == "falls"
    assert curve.level.estimate == pytest.approx(LEVEL * (LEVEL / 100) ** 0.6, rel=0.03)


def test_few_noisy_samples_decide_nothing() -> None:
    assert fitted(draw(knee, 5, spread=0.2, rounds=2)).shape == "undecided"


@pytest.mark.parametrize("heavy", [False, True])
@pytest.mark.parametrize("spread", [0.01, 0.03])
def test_the_interval_keeps_its_promise(heavy: bool, spread: float) -> None:
    """Of 300 sweeps the level is missed by no more than a promise of 5 % allows (with 4 standard errors)."""
    runs, missed, called = 300, 0, 0
    for seed in range(runs):
        curve = fit(draw(knee, seed, spread=spread, heavy=heavy), 0.025, 0.025, 0.05)
        if curve.shape == "plateau":
            called += 1
            low, high = curve.level.low, curve.level.high
            assert low is not None
            assert high is not None
            missed += not low <= LEVEL <= high
    assert called > runs / 2
    assert missed <= called * 0.05 + 4 * math.sqrt(called * 0.05 * 0.95)


@pytest.mark.parametrize("spread", [0.01, 0.1, 0.5])
@pytest.mark.parametrize("power", [1.0, 0.5, 0.3])
def test_a_rising_curve_never_has_a_plateau(power: float, spread: float) -> None:
    shapes = [fitted(draw(lambda x: 7 * x**power, n, spread=spread)).shape for n in range(100)]
    assert shapes.count("plateau") == 0
    assert shapes.count("falls") == 0


def test_on_the_edge_it_is_called_a_plateau_no_more_often_than_promised() -> None:
    """Growth just beyond the limit is the hardest case: at an error of 10 %, 30 of 300 may be called flat."""
    found = 0
    for seed in range(300):
        samples = draw(lambda x: x ** (FLAT * 1.001), seed, spread=0.005)
        found += fit(samples, 0.05, 0.05, 0.1).shape == "plateau"
    assert found <= 30 + 4 * math.sqrt(300 * 0.1 * 0.9)


def test_outliers_do_not_move_the_fit() -> None:
    moved = 0
    for seed in range(100):
        samples = draw(knee, seed)
        chance = random.Random(seed)
        # One sample of every second load lost most of its packets.
        for load in chance.sample(LOADS, 3):
            samples[load][0] *= 0.3
        curve = fitted(samples)
        low, high = curve.level.low, curve.level.high
        assert curve.level.estimate == pytest.approx(LEVEL, rel=0.03)
        moved += low is not None and high is not None and not low <= LEVEL <= high
    assert moved <= 5


@given(st.randoms(use_true_random=False), st.integers(0, 1000))
def test_the_order_does_not_matter(chance: random.Random, seed: int) -> None:
    samples = draw(knee, seed, rounds=3)
    shuffled = {load: chance.sample(samples[load], 3) for load in chance.sample(LOADS, len(LOADS))}
    assert fitted(samples) == fitted(shuffled)


@given(st.floats(1e-6, 1e6), st.floats(1e-6, 1e6), st.integers(0, 100))
def test_units_do_not_matter(of_load: float, of_value: float, seed: int) -> None:
    samples = draw(knee, seed)
    curve = fitted(samples)
    scaled = fitted({x * of_load: [y * of_value for y in ys] for x, ys in samples.items()})
    assert scaled.shape == curve.shape
    assert scaled.level.estimate == pytest.approx(curve.level.estimate * of_value, rel=1e-6)


@given(
    st.dictionaries(
        st.floats(1e-3, 1e9),
        st.lists(st.floats(1e-3, 1e9), min_size=1, max_size=5),
        min_size=3,
        max_size=8,
    )
)
# Parts of a logarithm add up to more than the whole.
@example({3.0: [1.0], 4.0: [1.0], 2.5: [2.0], 0.5: [1.0]})
def test_the_fit_ends_for_any_samples(samples: dict[float, list[float]]) -> None:
    curve = fitted(samples)
    everything = [value for values in samples.values() for value in values]
    assert min(everything) <= curve.level.estimate <= max(everything)
    assert len(curve.flat) >= 3
    low, high = curve.level.low, curve.level.high
    assert low is None or high is None or low <= high


@pytest.mark.parametrize(
    "samples", [{}, {1.0: [1.0], 2.0: [2.0]}, {1.0: [1.0], 2.0: [1.0], 3.0: []}]
)
def test_too_few_samples_are_refused(samples: dict[float, list[float]]) -> None:
    with pytest.raises(ValueError, match="a curve needs samples of at least 3 loads"):
        fitted(samples)


def test_sens_slope_is_the_median_of_the_slopes() -> None:
    line = [(float(x), 2.0 * x + 1) for x in range(12)]
    found = sen([*line[:-1], (11.0, 1e6)], 0.01)
    assert (found.estimate, found.low) == (2.0, 2.0)
    assert found.high == pytest.approx(2.0)
    assert sen([(0.0, 0.0), (1.0, 1.0)], 0.01).low is None
    with pytest.raises(ValueError, match="all points have one x"):
        sen([(1.0, 1.0), (1.0, 2.0)], 0.01)
