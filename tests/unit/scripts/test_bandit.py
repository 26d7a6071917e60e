"""bandit in the lint step: each exception has its reason, and none is left over."""

from __future__ import annotations

import re
import subprocess
import sys
from typing import TYPE_CHECKING

import pytest
from gate.steps import ROOT, steps

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib  # pytest needs it there

if TYPE_CHECKING:
    from pathlib import Path

MARK = re.compile(r"#\s*nosec\b.*", re.IGNORECASE)
#: bandit takes every word up to the next # for the name of a rule.
EXPLAINED = re.compile(r"# nosec B\d+(?:,B\d+)* # \w")


def unexplained(text: str) -> list[str]:
    marks = (found[0] for line in text.splitlines() if (found := MARK.search(line)))
    return [mark for mark in marks if not EXPLAINED.match(mark)]


def scripts() -> list[Path]:
    """Python files in script/ whose names do not say so."""
    files = (path for path in (ROOT / "script").iterdir() if path.is_file() and not path.suffix)
    return [path for path in files if path.read_text().startswith("#!/usr/bin/env python3")]


def bandit() -> tuple[str, ...]:
    """The command of the lint step."""
    lint = next(step for step in steps(ROOT) if step.name == "lint")
    return next(command for command in lint.commands if "bandit" in " ".join(command))


@pytest.mark.parametrize(
    "mark",
    [
        "# nosec",
        "#nosec B108",
        "# nosec: B108 # a reason",
        "# nosec B108 - a reason",
        "# nosec B108 # ",
    ],
)
def test_a_mark_without_a_reason_is_found(mark: str) -> None:
    assert unexplained(f"folder = '/tmp'  {mark}\n") == [mark]


@pytest.mark.parametrize(
    "mark",
    [
        "# nosec B108 # a reason",
        "# nosec B108,B311 # a reason",
        "# nanoseconds",
    ],
)
def test_other_comments_and_explained_marks_are_not(mark: str) -> None:
    assert unexplained(f"folder = '/tmp'  {mark}\n") == []


def test_each_of_our_marks_has_a_reason() -> None:
    files = [ROOT / "conftest.py", *scripts()]
    files += [path for name in ("src", "script") for path in (ROOT / name).rglob("*.py")]
    found = {str(path.relative_to(ROOT)): unexplained(path.read_text()) for path in files}
    assert {path: marks for path, marks in found.items() if marks} == {}


def test_each_rule_that_is_skipped_has_a_reason() -> None:
    text = (ROOT / "pyproject.toml").read_text()
    skips = tomllib.loads(text)["tool"]["bandit"]["skips"]
    assert [skip for skip in skips if not re.search(rf'^  "{skip}",  # \w', text, re.M)] == []


def test_bandit_sees_every_script() -> None:
    """bandit says nothing of a file that is not there, and finds those in folders by .py alone."""
    named = [ROOT / word for word in bandit()[2:]]
    assert [path for path in named if not path.exists()] == []
    assert [path for path in scripts() if path not in named] == []


@pytest.mark.parametrize(
    ("code", "status", "said"),
    [
        ("folder = '/tmp'\n", 1, "Probable insecure usage of temp file"),
        (
            "folder = '/home'  # nosec B108 # a reason\n",
            1,
            "nosec encountered (B108), but no failed",
        ),
        ("folder = '/tmp'  # nosec B108 - a reason\n", 1, "Test in comment: reason is not a test"),
        ("folder = '/tmp'  # nosec B108 # a reason\n", 0, ""),
    ],
)
def test_whatever_bandit_says_is_red(tmp_path: Path, code: str, status: int, said: str) -> None:
    path = tmp_path / "module.py"
    path.write_text(code)
    done = subprocess.run(
        [sys.executable, *bandit()[:2], str(path)], capture_output=True, text=True, cwd=ROOT
    )
    assert (done.returncode, done.stderr) == (status, "")
    assert said in done.stdout if said else not done.stdout
