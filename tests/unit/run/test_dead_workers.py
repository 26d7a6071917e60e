"""A worker of pytest-xdist that dies takes no claim with it unseen."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any
from xml.etree import ElementTree

import pytest

if TYPE_CHECKING:
    from pathlib import Path

HEAD = """
import os, signal
import pytest
from samplers import around

def die():
    os.kill(os.getpid(), signal.SIGKILL)
"""
#: Six claims wait for their second session when the worker dies in the second claim of a test.
LATE = """
@pytest.mark.parametrize("number", range(6))
def test_waits(claim, number): claim("start.quick").holds(around(350))

def test_dies(claim):
    claim("start.alike").compares(around(350), to=around(350))
    claim("start.half").near(die, to=around(350))
"""


def claims(path: Path) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = json.loads(path.read_text())["claims"]
    return found


def verdicts(path: Path) -> dict[tuple[str, str], str]:
    """The verdicts in a record by test and claim."""
    return {(each["nodeid"].split("::")[1], each["name"]): each["verdict"] for each in claims(path)}


def cases(path: Path) -> dict[str, dict[str, str]]:
    """The properties of the test cases in a JUnit file."""
    return {
        case.attrib["name"]: {
            each.attrib["name"]: each.attrib["value"] for each in case.iter("property")
        }
        for case in ElementTree.parse(path).iter("testcase")
    }


@pytest.mark.parametrize("json_file", [True, False], ids=["with a record", "without"])
def test_its_claims_are_not_measured(project: pytest.Pytester, json_file: bool) -> None:
    project.makepyfile(HEAD + LATE)
    options = ["--claims-json=out.json"] if json_file else []
    result = project.runpytest("-n1", "--max-worker-restart=0", "--junitxml=out.xml", *options)
    assert result.ret == pytest.ExitCode.TESTS_FAILED
    result.stdout.fnmatch_lines_random(
        [
            "not measured *start.quick *",
            "not measured *start.half *",
            "*: *error: pytest-xdist's worker gw0 died before this claim was judged*",
        ]
    )
    result.stdout.fnmatch_lines(
        ["claims: 1 held, 7 not measured", "claims: result: broken, exit status 1"]
    )
    waiting = {(f"test_waits[{number}]", "start.quick"): "not measured" for number in range(6)}
    dying = {("test_dies", "start.alike"): "holds", ("test_dies", "start.half"): "not measured"}
    if json_file:
        assert verdicts(project.path / "out.json") == {**waiting, **dying}
    found = cases(project.path / "out.xml")
    for test, name in waiting:
        assert found[test][f"vperf.{name}.verdict"] == "not measured"
    assert found["test_dies"]["vperf.start.alike.verdict"] == "holds"
    assert found["test_dies"]["vperf.start.half.verdict"] == "not measured"


def test_claims_of_tests_that_no_worker_was_left_for(project: pytest.Pytester) -> None:
    project.makepyfile(
        HEAD
        + """
def test_dies(claim): claim("start.alike").compares(die, to=around(350))
def test_never_begins(claim): claim("start.quick").holds(around(350))
def test_plain(): pass
"""
    )
    result = project.runpytest("-n1", "--max-worker-restart=0", "--claims-json=out.json")
    assert result.ret == pytest.ExitCode.TESTS_FAILED
    assert verdicts(project.path / "out.json") == {
        ("test_dies", "start.alike"): "not measured",
        ("test_never_begins", "test_never_begins"): "not measured",
    }
    reason = claims(project.path / "out.json")[1]["reason"]
    assert reason == "error: pytest-xdist had no worker left for this test"


def test_a_test_that_another_worker_runs_is_not_lost(project: pytest.Pytester) -> None:
    project.makepyfile(
        HEAD
        + """
def test_dies(claim): claim("start.alike").compares(die, to=around(350))
@pytest.mark.parametrize("number", range(3))
def test_after(claim, number): claim("start.alike").compares(around(350), to=around(350))
"""
    )
    result = project.runpytest("-n1", "--claims-json=out.json")
    assert result.ret == pytest.ExitCode.TESTS_FAILED
    assert verdicts(project.path / "out.json") == {
        ("test_dies", "start.alike"): "not measured",
        **{(f"test_after[{number}]", "start.alike"): "holds" for number in range(3)},
    }


def test_a_worker_that_dies_after_its_tests_is_no_success(project: pytest.Pytester) -> None:
    project.makepyfile(
        HEAD
        + """
@pytest.fixture(scope="session")
def ends():
    yield
    die()
def test_it(claim, ends): claim("start.alike").compares(around(350), to=around(350))
"""
    )
    result = project.runpytest("-n1", "--max-worker-restart=0")
    assert result.ret == pytest.ExitCode.TESTS_FAILED
    result.stdout.fnmatch_lines(["claims: 1 held", "claims: result: broken, exit status 1"])


def test_tests_that_were_left_out_on_purpose_are_not_lost(project: pytest.Pytester) -> None:
    project.makepyfile(
        HEAD
        + """
def test_dies(claim): claim("start.alike").compares(die, to=around(350))
def test_fails(): raise AssertionError
@pytest.mark.parametrize("number", range(9))
def test_after(claim, number): claim("start.alike").compares(around(350), to=around(350))
"""
    )
    result = project.runpytest("-n1", "-x", "--claims-json=out.json")
    assert result.ret != 0
    found = verdicts(project.path / "out.json")
    assert found.pop(("test_dies", "start.alike")) == "not measured"
    assert set(found.values()) <= {"holds"}


def test_a_worker_without_claims_is_none_of_our_business(project: pytest.Pytester) -> None:
    project.makepyfile(
        HEAD
        + """
def test_dies(): die()
def test_plain(): pass
"""
    )
    result = project.runpytest("-n1")
    assert result.ret == pytest.ExitCode.TESTS_FAILED
    result.stdout.no_fnmatch_line("claims: *")
