"""What `pytest_vperf` gives to others, and that tests of claims and documents need nothing else."""

from __future__ import annotations

import ast
import re
import subprocess
import sys
from pathlib import Path

import pytest

import pytest_vperf

ROOT = Path(__file__).parents[2]
#: The fields of a fenced block of Python in Markdown.
BLOCK = re.compile(r"^```python\n(.*?)^```", re.MULTILINE | re.DOTALL)


def imported(program: str) -> dict[str, str]:
    """The names that a program takes from this package, with the module that each is taken from."""
    found: dict[str, str] = {}
    for node in ast.walk(ast.parse(program)):
        if isinstance(node, ast.ImportFrom) and (node.module or "").startswith("pytest_vperf"):
            found |= {each.name: node.module or "" for each in node.names}
        elif isinstance(node, ast.Import):
            found |= {
                each.name: each.name for each in node.names if each.name.startswith("pytest_vperf.")
            }
    return found


@pytest.mark.parametrize("name", pytest_vperf.__all__)
def test_a_public_name_is_what_type_checkers_take_it_for(name: str) -> None:
    declared = imported(Path(pytest_vperf.__file__).read_text("utf-8"))
    program = f"from {declared[name]} import {name} as its; import pytest_vperf; assert its is pytest_vperf.{name}"
    subprocess.run([sys.executable, "-c", program], check=True)


def test_every_declared_name_is_public() -> None:
    declared = imported(Path(pytest_vperf.__file__).read_text("utf-8"))
    assert declared.keys() == set(pytest_vperf.__all__)
    assert set(pytest_vperf.__all__) <= set(dir(pytest_vperf))


def test_a_name_that_is_not_there() -> None:
    with pytest.raises(
        AttributeError, match=r"^module 'pytest_vperf' has no attribute 'Quantities'$"
    ):
        pytest_vperf.Quantities  # noqa: B018


def test_importing_the_package_imports_nothing_of_it() -> None:
    program = "import sys, pytest_vperf; print(*(each for each in sys.modules if each.startswith('pytest_vperf.')))"
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=True
    )
    assert done.stdout == "\n"


def programs() -> list[tuple[str, str]]:
    """The tests of published claims, and the programs in documents, by name."""
    found = [
        (path.name, path.read_text("utf-8"))
        for path in sorted((ROOT / "tests" / "claims").rglob("*.py"))
    ]
    for page in (ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))):
        found += [(page.name, text) for text in BLOCK.findall(page.read_text("utf-8"))]
    return found


def test_claims_and_documents_import_public_names_only() -> None:
    private = [
        f"{where}: {name} of {module}"
        for where, program in programs()
        for name, module in imported(program).items()
        if module != "pytest_vperf" or name not in pytest_vperf.__all__
    ]
    assert len(programs()) > 30
    assert private == []
