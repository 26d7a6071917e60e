"""The tests that prove a claim, found in their source: ``claim(f"startup.pod.{pods.accelerator}.{firmware}")``.

The name is complete only when the test runs. The source has its form, and a claim whose name has this form belongs to
the test. Nothing is imported or run, so this is fast and has no side effects. A name that a test gets from elsewhere
is not found; `Measured.test` of a record has such a test. The project's root, threshold files and record come from
pytest itself, with the plugin's own reading of options and ini settings; it stops before collecting tests. So
whatever decides where a run finds its thresholds (rootdir, ini files, ``PYTEST_ADDOPTS``) decides it here too.
"""

from __future__ import annotations

import ast
import contextlib
import os
import re
import sys
from dataclasses import dataclass
from typing import TYPE_CHECKING

import pytest

from pytest_vperf.run import doors
from pytest_vperf.run.settings import read_settings
from pytest_vperf.thresholds.profile import stands_for, threshold_folders

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from pathlib import Path

    from pytest_vperf.run.options import Settings


class ProjectError(Exception):
    """pytest does not start here; it has printed why to standard error."""


@dataclass(frozen=True)
class Project:
    """The places of a project's files.

    Attributes:
        root: the folder that test IDs are relative to.
        folders: the folders of threshold files; of two files with one name, the one in the earlier folder counts.
        json: the record of runs, by the project's settings; ``None`` if they write none.
        store: where it keeps runs, a path or a URL.
    """

    root: Path
    folders: tuple[Path, ...]
    json: Path | None
    store: str


class _Question:
    """Ends pytest once the settings are known."""

    def __init__(self) -> None:
        self.root: Path | None = None
        self.settings: Settings | None = None
        self.added: Sequence[Path] = ()

    @pytest.hookimpl(tryfirst=True)
    def pytest_cmdline_main(self, config: pytest.Config) -> int:
        """Read the settings, and end pytest."""
        self.root = config.rootpath
        self.settings = read_settings(config)
        self.added = doors.threshold_folders(config)
        return 0


def ask(thresholds: Sequence[str] = ()) -> Project:
    """Find the places by asking pytest.

    Args:
        thresholds: folders of threshold files, instead of the project's.

    Raises:
        ProjectError: pytest, or the plugin, does not understand the project's settings or these folders.
    """
    question = _Question()
    words = ["-p", "no:cacheprovider", "--capture=no"]  # leave no traces
    words += [f"--claims-thresholds={folder}" for folder in thresholds]
    with _silent_stdout():
        status = pytest.main(words, plugins=[question])
    if question.settings is None or question.root is None:
        raise ProjectError(f"pytest ended with status {int(status)}")
    folders = threshold_folders((*question.settings.thresholds, *question.added))
    settings = question.settings
    return Project(question.root, folders, settings.json, settings.store)


@contextlib.contextmanager
def _silent_stdout() -> Iterator[None]:
    """Send output of conftest files, and of processes they start, to standard error, away from the table."""
    sys.stdout.flush()
    kept = os.dup(1)
    os.dup2(2, 1)
    try:
        with contextlib.redirect_stdout(sys.stderr):
            yield
    finally:
        os.dup2(kept, 1)
        os.close(kept)


_Test = (ast.FunctionDef, ast.AsyncFunctionDef)
#: The fixture, which is called with the claim's name.
_FIXTURE = "claim"


@dataclass(frozen=True)
class NamingTest:
    """A test, and the form of a claim's name in its source.

    Attributes:
        test: its ID without parameters: ``tests/claims/test_startup.py::test_pod_starts_in_time``.
        form: the name, with ``{}`` for the parts filled in when the test runs.
    """

    test: str
    form: str

    def names(self, claim: str) -> bool:
        """Whether a name has the form. A name in a threshold file may have one ``*``, which stands for one word."""
        words = (re.escape(part) for part in self.form.split("{}"))
        if re.fullmatch(".+".join(words), claim):
            return True
        return "*" in claim and stands_for(claim, self.form)


def naming_tests(place: Path, root: Path) -> tuple[list[NamingTest], list[str]]:
    """The naming tests of a file, or of all files in a folder that have pytest's usual names of test files.

    Args:
        place: the file or folder.
        root: the folder that IDs are relative to.

    Returns:
        the tests in their order, and a line for each file that could not be read.
    """
    files = (
        [place]
        if place.is_file()
        else sorted({*place.rglob("test_*.py"), *place.rglob("*_test.py")})
    )
    found: list[NamingTest] = []
    wrong: list[str] = []
    for path in files:
        try:
            tree = ast.parse(path.read_bytes())
        except (OSError, SyntaxError, ValueError, RecursionError, MemoryError) as error:
            wrong.append(f"{path}: its tests cannot be read: {error}")
            continue
        inside = path.is_relative_to(root)
        name = (path.relative_to(root) if inside else path).as_posix()
        found += _in_body(tree.body, name)
    return list(dict.fromkeys(found)), wrong


def _in_body(body: list[ast.stmt], name: str) -> Iterator[NamingTest]:
    for node in body:
        if isinstance(node, ast.ClassDef):
            yield from _in_body(node.body, f"{name}::{node.name}")
        elif isinstance(node, _Test) and node.name.startswith("test"):
            arguments = [*node.args.posonlyargs, *node.args.args, *node.args.kwonlyargs]
            if any(each.arg == _FIXTURE for each in arguments):
                for form in _forms(node):
                    yield NamingTest(f"{name}::{node.name}", form)


def _forms(test: ast.AST) -> Iterator[str]:
    for node in ast.walk(test):
        if not isinstance(node, ast.Call) or not isinstance(node.func, ast.Name):
            continue
        if node.func.id != _FIXTURE or not node.args:
            continue
        form = _form(node.args[0])
        if form.replace("{}", "").strip("."):  # otherwise every name would have the form
            yield form


def _form(name: ast.expr) -> str:
    if isinstance(name, ast.Constant) and isinstance(name.value, str):
        return name.value
    if isinstance(name, ast.JoinedStr):
        return "".join(
            str(part.value) if isinstance(part, ast.Constant) else "{}" for part in name.values
        )
    return ""
