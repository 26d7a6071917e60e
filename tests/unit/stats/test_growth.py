"""The cost of one more target: against known values, under the errors of such series, and with spoilt readings."""

from __future__ import annotations

import random

import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.stats import theilslopes

from pytest_vperf.stats.spread import growth, theil_sen

sizes = st.integers(12, 60)
figures = st.floats(-1e6, 1e6)


@given(st.lists(st.integers(1, 5), min_size=1, max_size=40), figures, figures)
def test_a_line_has_its_slope(steps: list[int], slope: float, begin: float) -> None:
    numbers = [float(sum(steps[:place])) for place in range(len(steps) + 1)]
    found = growth(numbers, [begin + slope * number for number in numbers])
    assert found.estimate == pytest.approx(slope, rel=1e-6, abs=1e-6)


@given(st.lists(figures, min_size=12, max_size=40), st.floats(-100, 100), st.floats(-1e5, 1e5))
def test_a_line_that_is_added_adds_its_slope(
    values: list[float], slope: float, begin: float
) -> None:
    numbers = list(range(len(values)))
    before = growth(numbers, values)
    after = growth(
        numbers, [value + begin + slope * n for n, value in zip(numbers, values, strict=True)]
    )
    for one, other in (
        (before.estimate, after.estimate),
        (before.low, after.low),
        (before.high, after.high),
    ):
        assert one is not None
        assert other is not None
        assert other - one == pytest.approx(slope, abs=1e-4)


@given(st.lists(figures, min_size=12, max_size=60))
def test_the_estimate_lies_in_its_interval(values: list[float]) -> None:
    found = growth(list(range(len(values))), values)
    assert found.low is not None
    assert found.high is not None
    assert found.low <= found.estimate <= found.high


@pytest.mark.parametrize("size", range(2, 12))
def test_few_readings_have_no_bounds(size: int) -> None:
    found = growth(list(range(size)), [3.0 * n for n in range(size)])
    assert (found.estimate, found.low, found.high) == (3.0, None, None)


def covered(series: list[list[float]], slope: float) -> float:
    hits = 0
    for values in series:
        found = growth(list(range(len(values))), values)
        assert found.low is not None
        assert found.high is not None
        hits += found.low <= slope <= found.high
    return hits / len(series)


def test_it_covers_what_each_one_adds() -> None:
    """Each adds its own, skewed to one side; Sen's interval for the same series covers far less than it says."""
    chance = random.Random(1)
    series = []
    for _ in range(400):
        values = [0.0]
        for _ in range(120):
            values.append(values[-1] + 50 + chance.gammavariate(4, 5))
        series.append(values)
    assert covered(series, 70) >= 0.93
    sens = [theilslopes(values, range(len(values)), 0.95) for values in series[:100]]
    assert sum(found.low_slope <= 70 <= found.high_slope for found in sens) < 60


def test_it_covers_where_others_take_and_give_back() -> None:
    chance = random.Random(2)
    series = [[70.0 * n + chance.gauss(0, 300) for n in range(100)] for _ in range(400)]
    assert covered(series, 70) >= 0.93


def test_it_covers_where_what_others_take_changes_slowly() -> None:
    chance = random.Random(3)
    series = []
    for _ in range(400):
        level, values = 0.0, []
        for number in range(120):
            level = 0.6 * level + chance.gauss(0, 40)
            values.append(70.0 * number + level)
        series.append(values)
    assert covered(series, 70) >= 0.9


@given(st.integers(0, 119), st.floats(-1e9, 1e9))
def test_memory_that_others_take_for_good_spoils_one_block(place: int, taken: float) -> None:
    values = [70.0 * n + (taken if n > place else 0.0) for n in range(120)]
    found = growth(list(range(120)), values)
    assert found.estimate == pytest.approx(70, abs=1e-3)
    assert found.low == pytest.approx(70, abs=1e-3)
    assert found.high == pytest.approx(70, abs=1e-3)


def test_one_reading_that_is_off_moves_little() -> None:
    values = [7.0 * n for n in range(11)]
    values[5] = 1e9
    assert theil_sen(list(range(11)), values) == 7.0


@pytest.mark.parametrize(
    ("numbers", "values", "words"),
    [
        ([1.0], [1.0], "1 numbers and 1 values: no slope follows"),
        ([1.0, 2.0], [1.0], "2 numbers and 1 values"),
        ([1.0, 1.0], [1.0, 2.0], "the numbers do not rise"),
        ([1.0, 2.0], [1.0, float("nan")], "a value is nan, not a finite number"),
    ],
)
def test_bad_arguments_are_refused(numbers: list[float], values: list[float], words: str) -> None:
    with pytest.raises(ValueError, match=words):
        growth(numbers, values)
