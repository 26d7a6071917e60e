"""The page about security names tests; they are there."""

from __future__ import annotations

import ast
import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
NAMED = sorted(set(re.findall(r"`(tests/[^`]*::\w+)`", (ROOT / "docs/security.md").read_text())))


def test_the_page_names_tests() -> None:
    assert len(NAMED) > 20


@pytest.mark.parametrize("name", NAMED)
def test_a_test_that_is_named_is_there(name: str) -> None:
    path, _, function = name.partition("::")
    found = {
        each.name
        for each in ast.walk(ast.parse((ROOT / path).read_text()))
        if isinstance(each, ast.FunctionDef)
    }
    assert function in found
