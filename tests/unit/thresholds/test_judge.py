"""The five settings of a judge: one reading for files, markers, options and ini settings."""

from __future__ import annotations

import math
import subprocess
import sys

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pytest_vperf.run.options import OPTIONS
from pytest_vperf.thresholds import judge
from pytest_vperf.thresholds.schema import JudgePart


def test_the_defaults_are_those_that_help_shows() -> None:
    shown = {key: OPTIONS[f"claims_{key}"].default for key in judge.DEFAULTS}
    assert {key: judge.read(key, text) for key, text in shown.items()} == judge.DEFAULTS


def test_a_threshold_file_accepts_the_same_settings() -> None:
    assert list(JudgePart.model_fields) == list(judge.DEFAULTS)


@given(st.floats(0.001, 99.9))
def test_a_percentage_is_the_ratio_it_means(percent: float) -> None:
    number = judge.read_tolerance(f"{percent!r} %")
    assert number == judge.read_tolerance(f"{percent!r}%")
    assert number == judge.read_tolerance(percent / 100)
    assert number == judge.read_tolerance(repr(percent / 100))


@given(st.sampled_from(list(judge.DEFAULTS)), st.one_of(st.floats(), st.integers(), st.text()))
def test_any_value_is_in_range_or_refused(key: str, value: object) -> None:
    message = ""
    try:
        number = judge.read(key, value)
    except ValueError as error:
        message = str(error)
    if message:
        assert "\n" not in message
        return
    least, most = {
        "tolerance": (0, 1),
        "pairs": (4, 1_000_000),
        "budget": (0, math.inf),
    }.get(key, (1e-6, 0.2))
    assert least <= number <= most


@pytest.mark.parametrize(
    ("key", "value", "number"),
    [
        ("tolerance", " 5% ", 0.05),
        ("tolerance", 0.05, 0.05),
        ("alpha", "1e-6", 1e-6),
        ("alpha", "20 %", 0.2),
        ("beta", 0.05, 0.05),
        ("pairs", " 64 ", 64),
        ("pairs", 1_000_000, 1_000_000),
        ("budget", "2 min", 120),
        ("budget", "500 ms", 0.5),
    ],
)
def test_settings_are_read(key: str, value: object, number: float) -> None:
    assert judge.read(key, value) == number


@pytest.mark.parametrize(
    ("key", "value", "message"),
    [
        ("tolerance", True, "True is not a percentage or ratio such as '2 %' or 0.02"),
        ("tolerance", None, "None is not a percentage or ratio such as '2 %' or 0.02"),
        ("tolerance", math.nan, "nan is not a percentage or ratio such as '2 %' or 0.02"),
        (
            "tolerance",
            1,
            "a tolerance is more than 0 % and less than 100 %, such as '2 %' or 0.02, not 1",
        ),
        ("alpha", "2 ms", "'2 ms' is not a chance such as 0.01"),
        (
            "alpha",
            -0.01,
            "the chance of a wrong verdict is from 0.000001 to 0.2, such as 0.01, not -0.01",
        ),
        ("pairs", True, "must be a whole number from 4 to 1000000, not True"),
        ("pairs", "0x40", "must be a whole number from 4 to 1000000, not '0x40'"),
        ("budget", 60, "60 needs a unit, e.g. 60 s"),
        ("budget", None, "None is not a time such as '60 s' or '2 min'"),
        ("budget", "-1 min", "'-1 min' is not more than 0"),
    ],
)
def test_bad_settings_are_refused(key: str, value: object, message: str) -> None:
    with pytest.raises(ValueError) as caught:
        judge.read(key, value)
    assert str(caught.value) == message


def test_plain_numbers_are_read_without_pint() -> None:
    program = (
        "import sys; from pytest_vperf.thresholds import judge; from pytest_vperf.claims import plan; from "
        "pytest_vperf.run import settings; "
        "judge.read('tolerance', 0.02); judge.read('alpha', 0.01); judge.read('pairs', '64'); "
        "print(*{'pint', 'pydantic', 'yaml', 'numpy', 'scipy'} & set(sys.modules))"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True)
    assert (done.returncode, done.stdout.strip(), done.stderr) == (0, "", "")
