"""A user's project whose claims on machines meet faults during measurement, and the result of each claim."""

from __future__ import annotations

import json
import re
import sys
from typing import TYPE_CHECKING, Any

import psutil

from pytest_vperf.machine.runs import MARK_FOLDER

if TYPE_CHECKING:
    from pathlib import Path

#: Seconds in which emulated machines have finished everything here.
LONG = 900

_CONFTEST = """
import itertools
import pytest
from pytest_vperf.quantity import Quantity


@pytest.fixture
def judged(claim, request):
    '''Judges how long a command takes; something happens before the third time.'''

    def judge(machine, act=lambda: None, ask=("true",)):
        numbers = itertools.count(1)

        def sample():
            if next(numbers) == 3:
                act()
            with open("sampled", "a") as stream:
                stream.write(request.node.name + "\\n")
            return Quantity(machine.run(list(ask), timeout=60).duration, "s")

        claim(f"fault.{request.node.name}").holds(sample)

    return judge
"""


def write(project: Path, tests: str) -> None:
    """Fill a folder.

    Args:
        project: the folder.
        tests: a test file's text, with the fixture ``judged(machine, act)``; each test is a claim of its own.
    """
    limits = "".join(
        f"  fault.{name}: {{at_most: 10 min, emulated: ten minutes are enough on any machine}}\n"
        for name in re.findall(r"def (test_\w+)\(", tests)
    )
    (project / "thresholds").mkdir()
    (project / "thresholds" / "any.yaml").write_text(
        f"hardware: {{name: any, match: {{}}}}\nclaims:\n{limits}"
    )
    (project / "conftest.py").write_text(_CONFTEST)
    (project / "test_it.py").write_text(tests)


def words(*options: str) -> list[str]:
    """The command that runs it."""
    quick = ("--claims-budget=5 min", "--claims-sessions=1", "--claims-json=out.json", "--hw=any")
    return [sys.executable, "-m", "pytest", "-p", "no:cacheprovider", *quick, *options]


def found(project: Path) -> dict[str, tuple[str, str]]:
    """The verdict and the reason of each claim."""
    claims: list[dict[str, Any]] = json.loads((project / "out.json").read_text())["claims"]
    return {
        each["name"].removeprefix("fault.test_"): (each["verdict"], each.get("reason") or "")
        for each in claims
    }


def nothing_left(runs_dir: Path) -> None:
    """Assert that no process of any run in a folder is left, and no run's folder."""
    left = [
        each.info
        for each in psutil.process_iter(["pid", "cmdline", "environ"])
        if str(runs_dir) in (each.info["environ"] or {}).get(MARK_FOLDER, "")
    ]
    assert left == []
    assert list(runs_dir.iterdir()) == []
