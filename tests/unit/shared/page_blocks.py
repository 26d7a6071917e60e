"""The blocks of README and of the pages, and a reader who follows a page from its top to its end.

What differs from the usual is said in a comment before the block, which no reader sees::

    <!--- not run: it would overwrite a disk; tests/integration/test_real_disk.py has one of its own -->
    <!--- file: test_python.py -->
    <!--- exit status: 1 -->

A block of Python with a test is a file of the reader's project, another one a program that is run. A block of YAML is
a threshold file, or entries of the usual one. Of a block for the console each command is run.
"""

from __future__ import annotations

import ast
import os
import re
import shlex
import subprocess
import sys
import textwrap
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from sybil import Document, Region
from sybil.parsers.markdown.lexers import DirectiveInHTMLCommentLexer, FencedCodeBlockLexer

from pytest_vperf.fixtures import on_demand
from pytest_vperf.thresholds.profile import load_profiles
from pytest_vperf.workloads.registry import TOOLS

if TYPE_CHECKING:
    from collections.abc import Container, Iterable, Mapping

ROOT = Path(__file__).parents[3]
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))]
LANGUAGES = ("console", "python", "toml", "yaml")
#: Commands that stand on many pages and are not typed here, with the reason.
UNTYPED = {
    "pip install pytest-vperf": "what is tested is installed; tests/unit/test_installed.py looks at the package",
    "pytest --pyargs pytest_vperf.published": "minutes; the step `claims` of the gate runs the same tests",
    "script/": "the gate itself, and its step `claims`",
    ".venv/bin/python benchmarks/": "minutes to hours; tests/unit/benchmarks runs them with small numbers",
    "sudo ": "it changes the machine's settings; tests/integration/test_doctor_tune.py",
    "vperf selfcheck": "hours; tests/unit/commands/test_selfcheck.py runs it with few decisions",
}
#: The fixtures of ours that start nothing.
WITHOUT_TARGETS = frozenset(("claim", "vperf_run", "vperf_scope", "vperf_sides"))


class Block(NamedTuple):
    """One block of a page.

    Attributes:
        page: that it is on.
        line: of the page, from 1.
        language: what follows its first fence.
        text: what is between its fences.
        says: what the comments before it say, by their first words.
    """

    page: Path
    line: int
    language: str
    text: str
    says: Mapping[str, str]

    @property
    def place(self) -> str:
        """Where it is, as an editor opens it."""
        return f"{self.page.relative_to(ROOT)}:{self.line}"

    @property
    def tests(self) -> list[ast.FunctionDef]:
        """The tests that a block of Python has."""
        functions = ast.parse(self.text).body if self.language == "python" else ()
        return [
            each
            for each in functions
            if isinstance(each, ast.FunctionDef) and each.name.startswith("test_")
        ]

    @property
    def starts_targets(self) -> bool:
        """Whether a test of it does, or a command."""
        if "starts targets" in self.says:
            return True
        ours = (on_demand.NAMES | {each.name for each in TOOLS}) - WITHOUT_TARGETS
        return any(argument.arg in ours for test in self.tests for argument in test.args.args)

    @property
    def commands(self) -> list[str]:
        """What a block for the console types, without what it shows of the answers."""
        return [
            found.replace("\\\n", "").removeprefix("$ ")
            for found in re.findall(r"^\$ (?:.*\\\n)*.*$", self.text, re.MULTILINE)
        ]

    @property
    def not_run(self) -> str:
        """Why not, and where something like it is; empty where it is run, at least in part."""
        if self.text.strip() in _files_of_examples():
            return "a file of examples/; tests/unit/test_examples.py and tests/integration/test_examples.py run it"
        if why := self.says.get("not run", ""):
            return why
        if self.language == "console" and all(map(untyped, self.commands)):
            return "; ".join(dict.fromkeys(map(untyped, self.commands)))
        return ""

    @property
    def file(self) -> str:
        """The name of the file that a block of Python is written to."""
        return self.says.get("file", f"test_{self.page.stem.replace('-', '_')}_{self.line}.py")

    @property
    def statuses(self) -> set[int]:
        """The exit statuses that its commands may have: what is shown, or said, else 0."""
        shown = re.findall(r"^claims: result: .*exit status (\d+)$", self.text, re.MULTILINE)
        return set(map(int, re.findall(r"\d+", self.says.get("exit status", "")) or shown or "0"))


def blocks(page: Path) -> list[Block]:
    """The blocks of a page, from its top."""
    document = Document.parse(str(page), FencedCodeBlockLexer("|".join(LANGUAGES)), _comments)
    found: list[Block] = []
    says: dict[str, str] = {}
    for _, region in document.regions:
        words = region.lexemes
        if "language" not in words:
            says[words["directive"]] = (words["arguments"] or "").strip()
            continue
        line = document.text.count("\n", 0, region.start) + 1
        text = (
            textwrap.dedent(words["source"]) if words["language"] == "console" else words["source"]
        )
        found.append(Block(page, line, words["language"], text, says))
        says = {}
    return found


def untyped(command: str) -> str:
    """Why a command is not typed here; empty where it is."""
    return next((why for begin, why in UNTYPED.items() if command.startswith(begin)), "")


def named(text: str) -> list[str]:
    """The files and folders of the repository that a text names."""
    return re.findall(r"\b(?:tests|examples)/[\w./]*\w", text)


@cache
def _files_of_examples() -> frozenset[str]:
    files = (ROOT / "examples").glob("*/*.*")
    return frozenset(each.read_text().strip() for each in files if each.is_file())


class Reader:
    """Does what a page says, in a folder of its own.

    Args:
        folder: the project's.
        options: of each pytest that is run, also inside of other commands.
    """

    def __init__(self, folder: Path, options: Iterable[str] = ()) -> None:
        self.folder = folder
        self._claims = ""
        self._environment = {
            **os.environ,
            "PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}",
            "PYTEST_ADDOPTS": shlex.join(("-p", "no:cacheprovider", *options)),
            "COLUMNS": "100",
            "VPERF_LOCK": str(folder.parent / "lock"),
        }

    def follow(self, block: Block, *, targets: bool) -> None:
        """Do what a block says; tests are written for the next command.

        Args:
            block: of the page.
            targets: whether tests that start some may be there for it; else they are collected, and are gone.

        Raises:
            AssertionError: it does not go as the page says.
        """
        if block.language == "console":
            if targets or not block.starts_targets:
                self._type(block)
        elif block.language == "python":
            self._write(block, run=targets or not block.starts_targets)
        elif block.language == "yaml":
            self._limit(block)
        else:
            raise AssertionError(f"{block.place}: nobody reads {block.language} here")

    def run(self, command: str, statuses: Container[int] = (0,)) -> str:
        """Type a command, and return what it answers.

        Raises:
            AssertionError: it has none of these exit statuses.
        """
        done = subprocess.run(
            ["bash", "-c", command],
            cwd=self.folder,
            env=self._environment,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            check=False,
        )
        assert done.returncode in statuses, f"{command}: {done.returncode}\n{done.stdout}"
        return done.stdout

    def _type(self, block: Block) -> None:
        for each in block.commands:
            if not untyped(each):
                self.run(each, block.statuses)

    def _write(self, block: Block, *, run: bool) -> None:
        path = self.folder / block.file
        before = path.read_text() if path.exists() else "import pytest\n"
        path.write_text(f"{before}\n{block.text}")
        if not block.tests:
            self.run(f"python {path.name}")
            return
        self.run(f"pytest --collect-only -q {path.name}")
        if not run:
            path.unlink()  # before the next command is pytest

    def _limit(self, block: Block) -> None:
        folder = self.folder / "thresholds"
        folder.mkdir(exist_ok=True)
        head, claims, rest = block.text.partition("claims:\n")
        text = block.text
        if head.startswith("hardware:\n  name: any\n"):
            self._claims = rest
        elif not head.startswith("hardware:"):
            self._claims += textwrap.indent(textwrap.dedent(rest if claims else head), "  ")
            text = f"hardware:\n  name: any\n  match: {{}}\nclaims:\n{self._claims}"
        (name,) = re.findall(r"name: ([\w-]+)", text)[:1]
        (folder / f"{name}.yaml").write_text(text)
        load_profiles([folder])


def _comments(document: Document) -> Iterable[Region]:
    return DirectiveInHTMLCommentLexer("not run|file|exit status|starts targets")(document)


def main() -> None:
    """List every block with what becomes of it."""
    every = [each for page in PAGES for each in blocks(page)]
    for block in every:
        where = "run with targets" if block.starts_targets else "run"
        print(
            f"{block.place} {block.language}: {f'not run: {block.not_run}' if block.not_run else where}"
        )
    left = sum(bool(each.not_run) for each in every)
    print(f"{len(every)} blocks, {len(every) - left} run, {left} not run")


if __name__ == "__main__":
    main()
