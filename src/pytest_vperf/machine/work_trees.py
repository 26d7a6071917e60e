"""Folders that a run has outside of its own, each with a work tree of a Git repository.

Others start what is built there, QEMU's own user among them, and nobody else may enter a run's folder. So that they
are found if the run is killed, its folder has a note of them.
"""

from __future__ import annotations

import contextlib
import json
import os
import shutil
import stat
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from pytest_vperf.machine import mounts
from pytest_vperf.machine.git import GitProblem, git

if TYPE_CHECKING:
    from collections.abc import Iterator

    from pytest_vperf.machine.runs import Run

#: The file in a run's folder that lists them, a line of JSON each.
_NOTE = "work-trees"
#: The work tree in such a folder.
TREE = "tree"
#: Seconds that Git may take to remove a tree.
_LIMIT = 60


class WorkTree(NamedTuple):
    """One of them.

    Attributes:
        folder: that has the tree.
        repository: the root of a tree of the repository.
    """

    folder: Path
    repository: Path

    @property
    def tree(self) -> Path:
        """The work tree."""
        return self.folder / TREE

    def remove(self) -> str:
        """Have Git forget the tree, and remove the folder; return why something stays, otherwise empty.

        What was put in the place of either, a link or a mount, leads to files of others, and they are left alone.
        """
        try:
            status = self.folder.lstat()
        except FileNotFoundError:
            return ""
        if not stat.S_ISDIR(status.st_mode) or status.st_uid != os.geteuid():
            return f"{self.folder} is no folder of ours"
        if held := mounts.below(self.folder):
            return f"{held[0]} is still mounted"
        said = self._forget() if self.tree.is_dir() and not self.tree.is_symlink() else ""
        shutil.rmtree(self.folder, ignore_errors=True)
        if self.folder.exists():
            return f"{self.folder} cannot be removed"
        return said if self.repository.is_dir() else ""

    def _forget(self) -> str:
        words = ("worktree", "remove", "--force", "--force", str(self.tree))
        try:
            git(*words, at=self.repository, limit=_LIMIT)
        except GitProblem as problem:
            return str(problem)
        return ""


def make(run: Run, program: str, repository: Path) -> WorkTree:
    """A folder for a work tree, which others may pass through; the tree itself is to be added.

    Args:
        run: that it belongs to.
        program: what the folder's name begins with.
        repository: the root of a tree of the repository.

    Raises:
        OSError: it cannot be made.
    """
    place = Path(tempfile.gettempdir()).resolve()
    made = WorkTree(place / f"{program}-{run.id}", repository.resolve())
    with (run.folder / _NOTE).open("a", encoding="utf-8") as note:
        note.write(json.dumps([str(each) for each in made]) + "\n")
    made.folder.mkdir()
    made.folder.chmod(0o711)
    return made


def of_run(folder: Path) -> Iterator[WorkTree]:
    """Those that a run's folder has a note of, and that are there.

    Args:
        folder: the run's.
    """
    try:
        lines = (folder / _NOTE).read_text("utf-8").splitlines()
    except (OSError, UnicodeDecodeError):
        return
    for line in lines:
        with contextlib.suppress(ValueError, TypeError):  # a line that was cut off
            own, repository = map(Path, json.loads(line))
            if os.path.lexists(own):
                yield WorkTree(own, repository)
