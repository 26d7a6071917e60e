"""Any text in, a result or a ParseError out: a short run; benchmarks/fuzz_parsers.py is the long one."""

from __future__ import annotations

import random

import golden_cases
import pytest
from examples import examples
from golden_cases import Case
from hypothesis import given, settings
from hypothesis import strategies as st

import hostile
from pytest_vperf.workloads.base import Output

CASES = golden_cases.cases()

#: Truncation tries every length of each text up to this one; longer ones are left to the long run.
SHORT = 4096


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_damage_is_an_error_or_leaves_the_other_figures(case: Case) -> None:
    for output in (*hostile.struck_numbers(case), *hostile.struck_lines(case)):
        hostile.judge(case, output, damaged=True)


@pytest.mark.parametrize(
    "case", [case for case in CASES if len(case.raw) <= SHORT], ids=lambda case: case.name
)
def test_truncated_output_is_an_error_or_has_no_made_up_zero(case: Case) -> None:
    outcomes = [hostile.judge(case, output) for output in hostile.truncations(case)]
    assert outcomes[0] == "ParseError", "an empty output is not a result"


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
@settings(max_examples=examples(25))
@given(seed=st.integers(0, 2**32))
def test_mutated_output_is_a_result_or_an_error(case: Case, seed: int) -> None:
    hostile.judge(case, hostile.mutated(case, random.Random(seed)))


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
@settings(max_examples=examples(10))
@given(stdout=st.text(), stderr=st.text())
def test_any_text_is_a_result_or_an_error(case: Case, stdout: str, stderr: str) -> None:
    hostile.judge(case, Output(stdout, stderr))


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
@pytest.mark.parametrize("zero", hostile.ZEROS, ids=ascii)
def test_digits_of_other_scripts_are_not_numbers(case: Case, zero: str) -> None:
    text = hostile.in_script(hostile.text_of(case), zero)
    output = hostile.with_text(case, text)
    assert hostile.judge(case, output) == "ParseError"


def test_judge_notices_a_figure_that_became_zero() -> None:
    case = next(case for case in CASES if case.name == "sysbench/cpu-1.0.20-events")
    zero = case.output.stdout.replace("avg:                                    1.77", "avg: 0")
    broken = zero.replace("min:                                    1.31", "min: 0")
    assert broken != zero != case.output.stdout
    assert hostile.judge(case, Output(broken)) == "result"
    with pytest.raises(hostile.Silent, match=r"latency\.(minimum|average) became 0"):
        hostile.judge(case, Output(broken), damaged=True)
