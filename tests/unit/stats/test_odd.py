"""Which machine is out of line, and which drifts; how often a sound one is called so."""

from __future__ import annotations

import math
import random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pytest_vperf.stats.odd import drift, odd_ones

LEVELS = st.dictionaries(st.text("abcdef", max_size=3), st.floats(1e-6, 1e9), max_size=12)


def equal(number: int, spread: float = 0.02) -> dict[str, float]:
    return {f"h{each}": math.exp(random.gauss(0, spread)) for each in range(number)}


def test_grubbs_test_as_published() -> None:
    # Grubbs and Beck 1972 (Technometrics 14, table 1), two-sided at 5 %, n = 8: 2.126.
    others = (0.1, -0.2, 0.15, -0.05, 0.0, 0.05, -0.1)

    def sample(far: float) -> dict[str, float]:
        return {str(far): math.exp(far), **{f"{each}": math.exp(each) for each in others}}

    def deviate(far: float) -> float:
        logs = [far, *others]
        mean = sum(logs) / 8
        return (far - mean) / math.sqrt(sum((each - mean) ** 2 for each in logs) / 7)

    below = max(
        (each / 1000 for each in range(100, 900)), key=lambda far: (deviate(far) < 2.126, far)
    )
    assert odd_ones(sample(below - 0.01), 0.05) == ()
    assert odd_ones(sample(below + 0.01), 0.05) == (str(below + 0.01),)


@pytest.mark.parametrize("number", [3, 5, 10, 20])
def test_equal_machines_have_an_odd_one_as_often_as_said(number: int) -> None:
    random.seed(number)
    wrong = sum(bool(odd_ones(equal(number), 0.05)) for _ in range(1000))
    # Of 1,000 at 5 %, more than 75 come in 4 of 10,000 tries (the binomial distribution).
    assert wrong <= 75


def test_one_that_is_out_of_line_is_found() -> None:
    random.seed(1)
    found = sum(odd_ones({**equal(7), "slow": 1.2}, 0.01) == ("slow",) for _ in range(100))
    assert found >= 95


def test_two_of_many_do_not_hide_each_other() -> None:
    random.seed(1)
    found = [odd_ones({**equal(18), "one": 1.4, "two": 1.38}, 0.01) for _ in range(50)]
    assert sum(set(each) == {"one", "two"} for each in found) >= 48


@given(LEVELS, st.floats(1e-6, 1e6))
def test_the_unit_does_not_matter(levels: dict[str, float], factor: float) -> None:
    found = odd_ones(levels, 0.01)
    assert len(levels) >= 3 or not found
    assert set(found) <= set(levels)
    scaled = {name: level * factor for name, level in levels.items()}
    assert len(odd_ones(scaled, 0.01)) == len(found)


def test_equal_to_the_last_digit() -> None:
    assert odd_ones(dict.fromkeys("abcd", 350.0), 0.01) == ()
    assert odd_ones({**dict.fromkeys("abcdefg", 350.0), "h": 400.0}, 0.01) == ("h",)
    assert drift([1.1] * 12, 0.01) is None


def test_a_drift_is_found_with_its_pace() -> None:
    random.seed(1)
    noise = [math.exp(random.gauss(0, 0.003)) for _ in range(12)]
    found = drift([1.01**run * each for run, each in enumerate(noise)], 0.001)
    assert found is not None
    assert found.pace == pytest.approx(1.01, abs=0.001)
    assert found.runs == 12
    assert drift([1.0, 1.1, 1.2], 0.01) is None  # of three runs any order is common
    wrong = sum(
        drift([random.gauss(1, 0.01) for _ in range(12)], 0.05) is not None for _ in range(400)
    )
    assert wrong <= 36  # 5 % of 400 are 20; more than 36 come in 2 of 10,000 tries
