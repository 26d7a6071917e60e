"""The table of the versions of Python and pytest, and what makes it red."""

from __future__ import annotations

import re
import sys
from pathlib import Path

import pytest
from gate import matrix
from gate.outcome import Outcome

ROOT = Path(__file__).parents[3]


def outcome(**reasons: str) -> Outcome:
    """Two tests that passed, and those that were skipped for a reason, or failed."""
    ended = {"test_a": "passed", "test_b": "passed"}
    ended |= {name: "skipped" if why else "failed" for name, why in reasons.items()}
    return Outcome(collected=list(ended), ended=ended, reasons=reasons)


def test_the_oldest_and_the_newest() -> None:
    assert matrix.chosen("landing", matrix.PYTHONS) == ["py310-pytest7", "py313-pytest9-xdist"]
    assert matrix.chosen("landing", ["3.11"]) == ["py311-pytest7", "py311-pytest9-xdist"]


def test_all() -> None:
    found = matrix.chosen("all", matrix.PYTHONS)
    assert len(set(found)) == 24
    # As in tox.ini, which would take another name for an environment of its own making.
    assert (
        "[testenv:py{310, 311, 312, 313}-pytest{7, 8, 9}{, -xdist}]"
        in (ROOT / "tox.ini").read_text()
    )
    assert {"py310-pytest7", "py312-pytest8-xdist", "py313-pytest9"} < set(found)
    classifiers = re.findall(r"Python :: (3\.\d+)", (ROOT / "pyproject.toml").read_text())
    assert tuple(classifiers) == matrix.PYTHONS


def test_this_python_is_found() -> None:
    version = f"{sys.version_info[0]}.{sys.version_info[1]}"
    assert Path(matrix.interpreters()[version]).samefile(sys.executable)


def test_the_table() -> None:
    found = {
        "py310-pytest7": outcome(),
        "py310-pytest9-xdist": outcome(test_c="", test_d="no reason"),
        "py313-pytest7": outcome(test_c="could not import 'xdist': No module named 'xdist'"),
    }
    assert matrix.table(found) == [
        "passed/failed/skipped  pytest 7.4  pytest 9 with xdist",
        "Python 3.10            2/0/0       2/1/1",
        "Python 3.13            2/0/1",
    ]


@pytest.mark.parametrize(
    ("name", "found", "faults"),
    [
        ("py310-pytest7", outcome(), []),
        ("py310-pytest7", outcome(test_c="could not import 'xdist': No module"), []),
        (
            "py310-pytest7-xdist",
            outcome(test_c="could not import 'xdist': No module"),
            ["test_c was skipped, which nobody expects: could not import 'xdist': No module"],
        ),
        (
            "py310-pytest7",
            outcome(test_c="the mirror does not answer"),
            ["test_c was skipped, which nobody expects: the mirror does not answer"],
        ),
        ("py310-pytest7", outcome(test_c=""), ["1 failed: test_c"]),
        ("py310-pytest7", Outcome(), ["no test was collected"]),
        (
            "py310-pytest7",
            Outcome(collected=["test_a", "test_b"], ended={"test_a": "passed"}),
            ["1 of 2 collected tests did not end: test_b"],
        ),
    ],
)
def test_what_is_wrong(name: str, found: Outcome, faults: list[str]) -> None:
    assert matrix.faults_of(name, found) == faults
