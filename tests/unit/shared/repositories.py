"""Repositories of a tool whose level a claim samples, and Git in them."""

from __future__ import annotations

import subprocess
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable
    from pathlib import Path

#: Samples around the level that the file ``$TOOL`` begins with: what a build of ``cp level out`` makes.
TOOL_TEST = """
import itertools
import os
from pathlib import Path
from pytest_vperf import Quantity

def test_tool(claim):
    noise = itertools.cycle([1, 1.003, 0.999, 1.002, 0.998])
    def sample():
        level = float(Path(os.environ["TOOL"]).read_text().split()[0])
        return Quantity(level * next(noise), "ms", direction="lower")
    claim("mine.tool").holds(sample)
"""


def git(folder: Path, *words: str) -> str:
    """What Git prints there, as an author of its own, so that it commits on any machine."""
    author = ["-c", "user.name=A", "-c", "user.email=a@example.org"]
    return subprocess.run(
        ["git", *author, *words], cwd=folder, check=True, capture_output=True, text=True
    ).stdout.strip()


def repository(folder: Path, levels: Iterable[object]) -> list[str]:
    """Make one with a commit for each level, in a folder that is made, too; return the commits, the oldest first."""
    folder.mkdir()
    git(folder, "init", "--quiet")
    for number, level in enumerate(levels):
        (folder / "level").write_text(f"{level} of commit {number}\n")
        git(folder, "add", "level")
        git(folder, "commit", "--quiet", f"--message=change {number}")
    return git(folder, "rev-list", "--reverse", "HEAD").split()
