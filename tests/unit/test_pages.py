"""What README and the pages name is there: files, tests, other pages and their sections."""

from __future__ import annotations

import ast
import re
from functools import cache
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))]
#: A program of the repository, in prose or in a command.
FILE = re.compile(r"(?<![\w./-])(?:(?:benchmarks|src|tests)/[\w./-]*\.py|script/[\w./-]*\w)\b")
TEST = re.compile(r"`(tests/[^`:]*)::(?:\w+::)?(\w+)")
LINK = re.compile(r"\]\((?!\w+:)([^)\s]+)\)")
HEADING = re.compile(r"^#+ (.*)$", re.MULTILINE)
FENCED = re.compile(r"^```.*?^```", re.MULTILINE | re.DOTALL)


def slug(heading: str) -> str:
    """Return what GitHub calls a section, so that links reach it."""
    return re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-")


@cache
def functions(path: Path) -> frozenset[str]:
    tree = ast.parse(path.read_text())
    return frozenset(each.name for each in ast.walk(tree) if isinstance(each, ast.FunctionDef))


@cache
def sections(path: Path) -> frozenset[str]:
    return frozenset(map(slug, HEADING.findall(FENCED.sub("", path.read_text()))))


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)
def test_files_that_a_page_names_are_there(page: Path) -> None:
    assert [name for name in FILE.findall(page.read_text()) if not (ROOT / name).exists()] == []


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)
def test_tests_that_a_page_names_are_there(page: Path) -> None:
    named = TEST.findall(page.read_text())
    assert [name for path, name in named if name not in functions(ROOT / path)] == []


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)
def test_links_of_a_page_lead_somewhere(page: Path) -> None:
    astray = []
    for link in LINK.findall(FENCED.sub("", page.read_text())):
        name, _, section = link.partition("#")
        target = page.parent / name if name else page
        if not target.exists() or (section and section not in sections(target)):
            astray.append(link)
    assert astray == []


def test_the_files_that_the_ways_through_the_house_pass_are_there() -> None:
    text = (ROOT / "docs/development.md").read_text()
    named = re.findall(r"`((?:\w+/)+(?:\w+\.py)?)`", text[text.index("## Five ways") :])
    assert len(named) > 40
    places = [ROOT / "src" / "pytest_vperf", ROOT]
    assert [name for name in named if not any((each / name).exists() for each in places)] == []


def test_the_page_about_security_names_tests() -> None:
    assert len(set(TEST.findall((ROOT / "docs/security.md").read_text()))) > 20
