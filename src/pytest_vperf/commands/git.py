"""What commands ask of the Git repository that they are called in."""

from __future__ import annotations

import os
import subprocess
from functools import cache
from typing import TYPE_CHECKING

from pytest_vperf.machine.work_trees import ELSEWHERE
from pytest_vperf.results.store.model import COMMIT

if TYPE_CHECKING:
    from pathlib import Path


class GitProblem(Exception):
    """Git is not there, or refused; the message is its own."""


def git(*words: str, at: Path | None = None) -> str:
    """What ``git`` prints, without the last end of line.

    Args:
        words: of the command; what a stranger may have written has to be checked before.
        at: the folder; by default the current one.

    Raises:
        GitProblem: it failed.
    """
    environment = {key: each for key, each in os.environ.items() if key not in ELSEWHERE}
    try:
        done = subprocess.run(
            ["git", *words],
            cwd=at,
            env=environment,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            errors="replace",
            check=False,
        )
    except OSError as error:
        raise GitProblem(f"git: {error.strerror}") from None
    if done.returncode:
        said = done.stderr.strip().splitlines()
        raise GitProblem(said[-1] if said else f"git {words[0]}: exit status {done.returncode}")
    return done.stdout.rstrip("\n")


@cache
def commits_between(old: str, new: str) -> tuple[str, ...]:
    """The commits that ``new`` has and ``old`` does not, the newest first, a line each; empty if Git does not say."""
    if not (COMMIT.fullmatch(old) and COMMIT.fullmatch(new)):
        return ()
    try:
        found = git("log", "--format=%h %s", "--max-count=1000", f"{old}..{new}", "--")
    except GitProblem:
        return ()
    return tuple(found.splitlines())
