"""Builds of commits: a work tree beside the user's checkout, a command that builds it, and what that makes."""

from __future__ import annotations

import hashlib
import os
import shutil
import subprocess
from contextlib import contextmanager
from pathlib import Path
from typing import IO, TYPE_CHECKING

from pytest_vperf import foreign_text
from pytest_vperf.machine import work_trees
from pytest_vperf.machine.cache import file_sha256
from pytest_vperf.machine.git import GitProblem, git
from pytest_vperf.machine.runs import Run
from pytest_vperf.reporting.console import say

if TYPE_CHECKING:
    from collections.abc import Iterator

#: The lines of a failed build or run that are shown.
_LINES = 15


class BuildFailed(Exception):
    """A commit cannot be built, or its build makes no artefact; says why."""


def read_artefact(text: str) -> tuple[str, str]:
    """The setting of a side that ``[KEY=]PATH`` names, by default a runtime, and the path, seen from a tree's root.

    Raises:
        ValueError: the path does not lie in the tree.
    """
    key, _, artefact = text.rpartition("=")
    if not artefact or Path(artefact).is_absolute() or ".." in Path(artefact).parts:
        raise ValueError(f"{artefact!r} is not a path below the root of the tree")
    return key or "runtime", str(Path(artefact))


def commit_of(top: Path, option: str, ref: str) -> str:
    """The commit that a reference means, in full.

    Raises:
        GitProblem: there is none; the message names the option.
    """
    try:
        return git("rev-parse", "--verify", "--end-of-options", f"{ref}^{{commit}}", at=top)
    except GitProblem:
        raise GitProblem(f"{option}: {top} has no commit {ref!r}") from None


@contextmanager
def work_tree(program: str, top: Path, commit: str) -> Iterator[Path]:
    """A folder with a work tree ``tree`` of the repository; afterwards both are gone. If this process is killed, the
    next run removes them, and ends what is built there.

    Args:
        program: as messages name it.
        top: the repository's root.
        commit: what is checked out.

    Raises:
        GitProblem: it cannot be made.
    """
    try:
        run = Run.begin()
        made = work_trees.make(run, program.replace(" ", "-"), top)
    except OSError as error:
        raise GitProblem(f"there is no place for a work tree: {error}") from None
    try:
        git("worktree", "add", "--quiet", "--detach", str(made.tree), commit, at=top)
        with _marked(run):
            yield made.folder
    finally:
        if trouble := made.remove():
            say(program, f"{made.folder} was left: {trouble}")
        run.close(keep=bool(trouble))


@contextmanager
def _marked(run: Run) -> Iterator[None]:
    """Within the context, all that this process starts has the run's marks."""
    before = dict(os.environ)
    os.environ.update(run.environment)
    try:
        yield
    finally:
        for name in run.environment:
            os.environ.pop(name)
        os.environ.update(before)


def build(
    tree: Path, command: str, artefact: str, output: int | IO[bytes], *, fresh: bool = False
) -> Path:
    """Build a tree, and return what was made.

    Args:
        tree: its root.
        command: for a shell.
        artefact: seen from the root.
        output: receives what the command prints.
        fresh: of a work tree of ours, in which another commit was built: the artefact of that one is removed before,
            unless it is a file of the repository, or a build that makes nothing would be the one before.

    Raises:
        BuildFailed: the command failed, or did not make the artefact, or a link in the tree leads out of it.
    """
    made = tree / artefact
    if not made.parent.resolve().is_relative_to(tree.resolve()):
        raise BuildFailed(f"{artefact} leads out of the tree")
    if fresh and not git("ls-files", "--", artefact, at=tree):
        if made.is_dir() and not made.is_symlink():
            shutil.rmtree(made)
        else:
            made.unlink(missing_ok=True)
    done = subprocess.run(
        ["sh", "-c", command],
        cwd=tree,
        stdin=subprocess.DEVNULL,
        stdout=output,
        stderr=output,
        check=False,
    )
    if done.returncode:
        raise BuildFailed(f"{command}: exit status {done.returncode}")
    if not made.exists():
        raise BuildFailed(f"{command} made no {artefact}")
    return made


def content(path: Path) -> str:
    """A hash of a file, or of all files of a folder with their names, by which equal builds are known."""
    if not path.is_dir():
        return file_sha256(path)
    digest = hashlib.sha256()
    for file in sorted(path.rglob("*")):
        if file.is_file():
            digest.update(f"{file.relative_to(path)}\0{file_sha256(file)}\0".encode())
    return digest.hexdigest()


def end_of(log: Path) -> str:
    """The last lines of a log, each on a line of its own below a message; empty without any."""
    try:
        lines = log.read_text("utf-8", errors="replace").splitlines()[-_LINES:]
    except FileNotFoundError:
        return ""
    return "".join(f"\n    {foreign_text.line(line)}" for line in lines)
