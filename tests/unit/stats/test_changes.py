"""Where the level of a series of runs changed: steps, slips, and none where there is none."""

from __future__ import annotations

import math
import random
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pytest_vperf.stats.changes import find_changes, least_runs

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    Noise = Callable[[random.Random], float]

SLIPS = [100 * 1.01**number for number in range(1, 11)]


def normal(source: random.Random) -> float:
    return source.gauss(0, 1)


def outliers(source: random.Random) -> float:
    return source.gauss(0, 1) / math.sqrt(source.gammavariate(1.5, 1) / 1.5)


def modes(source: random.Random) -> float:
    """A machine whose level is one of two, as after each boot."""
    return source.choice((0.0, 3.0)) + source.gauss(0, 0.1)


def runs(
    levels: Sequence[float], spread: float, seed: object = 1, noise: Noise = normal
) -> list[float]:
    source = random.Random(str(seed))
    return [level * math.exp(spread * noise(source)) for level in levels]


def test_a_step_is_found_where_it_is() -> None:
    (change,) = find_changes(runs([100] * 15 + [103] * 8, 0.003)).changes
    assert (change.kind, change.first, change.last) == ("step", 15, 15)
    assert change.ratio == pytest.approx(1.03, abs=0.005)
    assert change.low is not None
    assert change.high is not None
    assert 1.02 < change.low < change.ratio < change.high < 1.04


def test_steps_up_and_down_are_found_one_by_one() -> None:
    found = find_changes(runs([100] * 20 + [105] * 20 + [98] * 20, 0.005)).changes
    assert [(each.kind, each.first) for each in found] == [("step", 20), ("step", 40)]


@pytest.mark.parametrize("spread", [0, 0.001, 0.003])
@pytest.mark.parametrize(("before", "after"), [(1, 0), (20, 0), (20, 10)])
def test_ten_slips_of_one_percent_are_one_slip(before: int, after: int, spread: float) -> None:
    levels = [100.0] * before + SLIPS + [SLIPS[-1]] * after
    (change,) = find_changes(runs(levels, spread)).changes
    assert change.kind == "slip"
    assert change.first == pytest.approx(before, abs=1)
    assert change.last == pytest.approx(before + 9, abs=1)
    assert change.ratio == pytest.approx(1.105, abs=0.02)


def test_ten_slips_in_noise_as_large_as_each_are_found() -> None:
    found = [find_changes(runs([100.0] * 20 + SLIPS, 0.01, seed)).changes for seed in range(50)]
    assert sum([each.kind for each in changes] == ["slip"] for changes in found) >= 45


def test_slips_of_which_each_has_many_runs_are_steps() -> None:
    """Then each has a commit of its own to blame."""
    levels = [100 * 1.01 ** (number // 20) for number in range(200)]
    found = find_changes(runs(levels, 0.003)).changes
    assert [each.kind for each in found] == ["step"] * 9
    assert [each.first for each in found] == pytest.approx(range(20, 200, 20), abs=2)


@pytest.mark.parametrize("noise", [normal, outliers, modes])
@pytest.mark.parametrize("size", [9, 20, 80])
def test_a_level_that_does_not_change_is_left_alone(noise: Noise, size: int) -> None:
    """Of 300 series at 1 %, more than 9 would have a probability of 0.1 %."""
    series = (runs([100] * size, 0.01, f"{noise.__name__} {seed}", noise) for seed in range(300))
    assert sum(bool(find_changes(each).changes) for each in series) <= 9


def test_one_run_that_is_out_of_the_way_is_no_change() -> None:
    levels = runs([100] * 40, 0.005)
    levels[20] = levels[39] = 500.0
    assert find_changes(levels).changes == ()


@pytest.mark.parametrize("values", [[], [1.0], [5.0] * 30, [1.0, 2.0]])
def test_so_few_or_equal_runs_show_nothing(values: list[float]) -> None:
    assert find_changes(values).changes == ()


def test_the_fewest_runs_that_show_a_step_do() -> None:
    half = least_runs() // 2
    levels = [100] * half + [200] * (least_runs() - half)
    assert len(find_changes(runs(levels, 0.01)).changes) == 1


def test_the_spread_is_that_of_neighbouring_runs() -> None:
    levels = [100 * 1.02 ** (number // 50) for number in range(400)]
    assert find_changes(runs(levels, 0.01)).spread == pytest.approx(0.01, rel=0.2)


@given(st.lists(st.floats(1, 1e3), min_size=2, max_size=60), st.floats(1e-3, 1e3))
def test_changes_do_not_depend_on_the_unit(values: list[float], factor: float) -> None:
    one, other = find_changes(values).changes, find_changes([factor * v for v in values]).changes
    assert [each.first for each in one] == [each.first for each in other]
    for before, after in zip(one, other, strict=True):
        assert after.ratio == pytest.approx(before.ratio)
        assert before.first <= before.last < len(values)


@given(st.lists(st.floats(1, 1e3), min_size=2, max_size=60))
def test_changes_are_in_order_and_between_runs(values: list[float]) -> None:
    found = find_changes(values).changes
    places = [place for each in found for place in (each.first, each.last)]
    assert places == sorted(places)
    assert all(0 < each.first <= each.last < len(values) for each in found)


def test_a_long_series_has_its_step() -> None:
    (change,) = find_changes(runs([100] * 5000 + [102] * 5000, 0.01)).changes
    assert change.kind == "step"
    assert change.first == pytest.approx(5000, abs=20)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (([1.0, 0.0],), "a run's figure is 0.0, not a positive number"),
        (([1.0, math.nan],), "a run's figure is nan, .*"),
    ],
)
def test_bad_arguments_are_refused(arguments: Any, message: str) -> None:
    with pytest.raises(ValueError, match=f"^{message}$"):
        find_changes(*arguments)
