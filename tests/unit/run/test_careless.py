"""What is probably not meant is said: as an error where it would count for nothing, as a warning where it counts."""

from __future__ import annotations

import json
import subprocess
import sys
from types import SimpleNamespace
from typing import TYPE_CHECKING

import pytest

from pytest_vperf.claims.careless import tracing

if TYPE_CHECKING:
    from pathlib import Path

HEAD = """
import pytest
from samplers import around
"""


def warnings_of(folder: Path) -> list[str]:
    (claim,) = json.loads((folder / "out.json").read_text())["claims"]
    # Two of these samplers give the same values one after the other.
    return [each for each in claim["warnings"] if "no variance" not in each]


def judged(project: pytest.Pytester, test: str, thresholds: str = "") -> list[str]:
    """The warnings of the one claim of a test."""
    if thresholds:
        text = (
            f"hardware: {{name: any, summary: every machine, match: {{}}}}\nclaims:\n{thresholds}"
        )
        (project.path / "thresholds" / "any.yaml").write_text(text)
    project.makepyfile(HEAD + test)
    project.runpytest("--claims-json=out.json", "--claims-sessions=1")
    return warnings_of(project.path)


def test_a_sampler_that_is_compared_with_itself(project: pytest.Pytester) -> None:
    test = """
def test_it(claim):
    sample = around(350)
    claim("start.alike").compares(sample, to=sample)
"""
    assert "both arms have the same sampler: it is compared with itself" in judged(project, test)


def test_two_samplers_of_one_kind_are_two(project: pytest.Pytester) -> None:
    test = "def test_it(claim): claim('start.alike').compares(around(350), to=around(350))"
    assert judged(project, test) == []


@pytest.mark.parametrize(("tolerance", "warned"), [("30 %", False), ("31 %", True)])
def test_a_wide_tolerance(project: pytest.Pytester, tolerance: str, warned: bool) -> None:
    test = f"""
@pytest.mark.vperf(tolerance={tolerance!r})
def test_it(claim): claim("start.no_worse").compares(around(350), to=around(350))
"""
    text = "a tolerance above 30%: 0.31 (marker): so much worse would still hold"
    assert judged(project, test) == [text] * warned


@pytest.mark.parametrize(
    ("limit", "unit", "direction", "warning"),
    [
        (
            "at_least: 400 ms",
            "ms",
            "",
            "≥ 400 ms: a time is better the lower it is; if not here, return Quantity(…, direction='higher')",
        ),
        (
            "at_most: 400 MB/s",
            "MB/s",
            "",
            "≤ 400 MB/s: a rate is better the higher it is; if not here, return Quantity(…, direction='lower')",
        ),
        ("at_least: 400 ms", "ms", "higher", ""),
        ("at_most: 400 MiB", "MiB", "", ""),
        ("at_least: 400 MiB", "MiB", "", ""),
        ("at_most: 400 ms", "ms", "", ""),
        ("near: {value: 350 ms, tolerance: 20 %}", "ms", "", ""),
    ],
)
def test_a_limit_on_the_wrong_side(
    project: pytest.Pytester, limit: str, unit: str, direction: str, warning: str
) -> None:
    test = f"""
from dataclasses import replace
def test_it(claim):
    sample = around(350, {unit!r})
    claim("start.a").holds(lambda: replace(sample(), direction={direction!r}))
"""
    found = judged(project, test, f"  start.a: {{{limit}}}\n")
    expected = [f"the limit is on the wrong side: {warning}"] if warning else []
    assert [each for each in found if "wrong side" in each] == expected


TRACED = """
import sys
from samplers import around
def follow(frame, event, arg): return None
def test_it(claim):
    before = sys.gettrace()
    sys.settrace(follow)
    try: claim("start.alike").compares(around(350), to=around(350))
    finally: sys.settrace(before)
"""


def test_samples_of_a_process_that_is_traced(project: pytest.Pytester) -> None:
    project.makepyfile(test_it=TRACED)
    done = subprocess.run(
        [sys.executable, "-m", "pytest", "-p", "no:hypothesispytest", "--claims-json=out.json"],
        cwd=project.path,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout
    (claim,) = json.loads((project.path / "out.json").read_text())["claims"]
    assert claim["noise"]["settings"]["tracer"] == "test_it"
    assert warnings_of(project.path) == [
        "this process was traced while it sampled itself: test_it: switch it off, such as with `--no-cov`, "
        "or sample in a target"
    ]


def test_a_monitoring_tool_of_a_newer_python_is_seen(monkeypatch: pytest.MonkeyPatch) -> None:
    tools = SimpleNamespace(get_tool={1: "coverage.py"}.get)
    monkeypatch.setattr(sys, "monitoring", tools, raising=False)
    assert tracing() == "coverage"


def test_a_limit_is_not_widened_by_a_tolerance(project: pytest.Pytester) -> None:
    project.makepyfile(
        f"""{HEAD}
@pytest.mark.vperf(tolerance="5 %")  # of a gate
def test_it(claim): claim("start.quick").holds(around(410))  # at most 400 ms
"""
    )
    assert project.runpytest().ret == pytest.ExitCode.TESTS_FAILED


def test_a_tolerance_for_a_claim_that_has_none(project: pytest.Pytester) -> None:
    name, shown = "start.alike", "ratio ≤ 1.1 (thresholds/any.yaml:*)"
    project.makepyfile(
        f"""{HEAD}
@pytest.mark.vperf(tolerance="5 %")
def test_it(claim): claim({name!r}).compares(around(350), to=around(350))
"""
    )
    result = project.runpytest()
    assert result.ret == pytest.ExitCode.TESTS_FAILED
    result.stdout.fnmatch_lines(
        [
            f"*claim {name!r} is {shown}, which has no tolerance: "
            "take tolerance=… out of the marker vperf of this test"
        ]
    )


@pytest.mark.parametrize("name", ["start.no_worse", "start.half"])
def test_a_tolerance_for_a_claim_that_has_one(project: pytest.Pytester, name: str) -> None:
    method = "near" if name == "start.half" else "compares"
    project.makepyfile(
        f"""{HEAD}
@pytest.mark.vperf(tolerance="5 %")
def test_it(claim): claim({name!r}).{method}(around(175), to=around(350))
"""
    )
    project.runpytest().assert_outcomes(passed=0, failed=0)
