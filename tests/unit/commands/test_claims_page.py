"""docs/claims.md is what `vperf claims` generates from the thresholds, the tests, the rows and the kept verdicts."""

from __future__ import annotations

import difflib
import os
import re
import shlex
import subprocess
import sys
from itertools import islice
from pathlib import Path

import pytest

from pytest_vperf.commands.claims.page import WIDEST
from pytest_vperf.commands.claims.rows import misplaced, read_rows
from pytest_vperf.commands.claims.tests import naming_tests
from pytest_vperf.thresholds.match import GALLERY
from pytest_vperf.thresholds.profile import load_profiles

ROOT = Path(__file__).parents[3]
PAGE = ROOT / "docs" / "claims.md"
ROWS = ROOT / "docs" / "claims" / "rows.yaml"
THRESHOLDS = ROOT / "thresholds"


def test_every_shipped_claim_is_in_one_row_and_no_row_is_empty() -> None:
    rows = read_rows(ROWS)
    assert [row.name for row in rows] == [f"S{number}" for number in range(1, 22)]
    profiles = load_profiles([THRESHOLDS])
    del profiles[GALLERY]  # what others publish
    names = [name for profile in profiles.values() for name in profile.claims]
    assert misplaced(rows, names) == []


def test_the_page_is_not_stale(tmp_path: Path) -> None:
    before = PAGE.read_text("utf-8")
    command = re.search(r"^Made by `(vperf .*)`;", before, re.MULTILINE)
    assert command is not None
    words = [word for word in shlex.split(command[1])[1:] if not word.startswith("--output=")]
    # As it is made, but for where it goes: the page would say that.
    done = subprocess.run(
        [sys.executable, "-m", "pytest_vperf", *words],
        cwd=ROOT,
        env={**os.environ, "PYTEST_ADDOPTS": ""},
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert (done.returncode, done.stderr) == (0, "")
    now = done.stdout.replace(shlex.join(["vperf", *words]), command[1])
    # Not asserted: pytest would print both pages, and nothing else would be found in what CI printed.
    if now != before:
        other = difflib.unified_diff(before.splitlines(True), now.splitlines(True), n=0)
        told = "\n".join(line[:200].rstrip() for line in islice(other, 7))
        pytest.fail(
            f"docs/claims.md is stale; this makes it anew: {command[1]}\n{told}", pytrace=False
        )


def test_no_cell_is_wide_and_each_footnote_is_there() -> None:
    text = PAGE.read_text("utf-8")
    rows = [line for line in text.splitlines() if line.startswith("| ")]
    cells = [cell for row in rows for cell in re.split(r" (?<!\\)\| ", row.strip("| "))]
    assert len(cells) > 3000
    assert [cell for cell in cells if len(cell) > WIDEST] == []
    marks = set(re.findall(r"\[\^[0-9]+\](?!:)", text))
    assert marks == set(re.findall(r"^(\[\^[0-9]+\]): \S", text, re.MULTILINE))


def test_it_begins_with_what_was_judged_on_hardware_that_fits() -> None:
    first = PAGE.read_text("utf-8").partition("## Row by row")[0]
    verdicts = re.findall(r"^\| (\w[a-z ]+) \| `", first, re.MULTILINE)
    assert set(verdicts) <= {"refuted", "inconclusive", "holds"}
    assert len(verdicts) > 10


def test_each_test_of_a_claim_that_is_named_is_there() -> None:
    """The page's column of tests: a test that was renamed since its record was written is found here."""
    tests, wrong = naming_tests(ROOT / "tests" / "claims", ROOT)
    assert not wrong
    told = set(re.findall(r"`(tests/claims/[^`]+::[^`]+)`", PAGE.read_text("utf-8")))
    assert told
    assert told <= {each.test for each in tests}


FORMS = """
class TestIt:
    async def test_inside(self, claim): claim(f"a.{1}.b")
def test_plain(claim, host):
    claim("a.x"); claim("a.y"); claim("a.y")
def test_unseen(claim, name): claim(name); claim(f"{name}"); claim(f"{name}.{name}"); claim()
def test_without_the_fixture(host): claim("a.z")
def helper(claim): claim("a.z")
"""


def test_forms_of_names_are_read_off_the_text(tmp_path: Path) -> None:
    (tmp_path / "test_a.py").write_text(FORMS)
    (tmp_path / "test_b.py").write_text("def (:\n")
    (tmp_path / "test_c.py").write_text("\0")
    (tmp_path / "helper.py").write_text(FORMS)
    tests, wrong = naming_tests(tmp_path, tmp_path)
    assert [(each.test, each.form) for each in tests] == [
        ("test_a.py::TestIt::test_inside", "a.{}.b"),
        ("test_a.py::test_plain", "a.x"),
        ("test_a.py::test_plain", "a.y"),
    ]
    assert [line.partition(": ")[0] for line in wrong] == [
        str(tmp_path / "test_b.py"),
        str(tmp_path / "test_c.py"),
    ]


@pytest.mark.parametrize(
    ("form", "name", "fits"),
    [
        ("a.{}.b", "a.x.b", True),
        ("a.{}.b", "a.x.y.b", True),
        ("a.{}.b", "a.b", False),
        ("a.{}.b", "a.*.b", True),
        ("a.{}", "a.b.*", True),
        ("a.runc", "a.*", True),
        ("a.b.c", "a.*", False),
        ("a.x", "axx", False),
    ],
)
def test_claim_names_match_the_form_in_the_test(
    tmp_path: Path, form: str, name: str, fits: bool
) -> None:
    written = form.replace("{}", "{claim}")
    (tmp_path / "test_it.py").write_text(f'def test_it(claim): claim(f"{written}")\n')
    ((test,), _) = naming_tests(tmp_path, tmp_path)
    assert test.names(name) is fits
