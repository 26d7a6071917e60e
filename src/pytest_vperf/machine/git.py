"""Git, as the user that calls it has it set up."""

from __future__ import annotations

import os
import subprocess
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pathlib import Path

#: Variables that would make Git look at another repository than that of its folder.
_ELSEWHERE = ("GIT_DIR", "GIT_WORK_TREE", "GIT_INDEX_FILE")


class GitProblem(Exception):
    """Git is not there, or refused; the message is its own."""


def git(*words: str, at: Path | None = None, limit: float | None = None) -> str:
    """What ``git`` prints, without the last end of line.

    Args:
        words: of the command; what a stranger may have written has to be checked before.
        at: the folder; by default the current one.
        limit: seconds that it may take; by default any.

    Raises:
        GitProblem: it failed, or took longer.
    """
    environment = {key: each for key, each in os.environ.items() if key not in _ELSEWHERE}
    try:
        done = subprocess.run(
            ["git", *words],
            cwd=at,
            env=environment,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            errors="replace",
            timeout=limit,
            check=False,
        )
    except OSError as error:
        raise GitProblem(f"git: {error.strerror}") from None
    except subprocess.TimeoutExpired:
        raise GitProblem(f"git {words[0]}: no answer in {limit:g} s") from None
    if done.returncode:
        said = done.stderr.strip().splitlines()
        raise GitProblem(said[-1] if said else f"git {words[0]}: exit status {done.returncode}")
    return done.stdout.rstrip("\n")
