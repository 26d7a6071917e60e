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
import subprocess
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Iterator

    from pytest_vperf.machine.runs import Run

#: The file in a run's folder that lists them, a line of JSON each.
_NOTE = "work-trees"
#: The work tree in such a folder.
TREE = "tree"
#: Git's settings by variables that would make it look at another repository.
ELSEWHERE = ("GIT_DIR", "GIT_WORK_TREE", "GIT_INDEX_FILE")
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
        """Have Git forget the tree, and remove the folder; return why something stays, otherwise empty."""
        said = self._forget() if os.path.lexists(self.tree) else ""
        with contextlib.suppress(FileNotFoundError):
            status = self.folder.lstat()
            if not stat.S_ISDIR(status.st_mode) or status.st_uid != os.geteuid():
                return f"{self.folder} is no folder of ours"
            shutil.rmtree(self.folder, ignore_errors=True)
        return said if not said or self.repository.is_dir() else ""

    def _forget(self) -> str:
        words = ("worktree", "remove", "--force", "--force", str(self.tree))
        kept = {name: each for name, each in os.environ.items() if name not in ELSEWHERE}
        try:
            done = subprocess.run(
                ["git", "-C", str(self.repository), *words],
                env=kept,
                stdin=subprocess.DEVNULL,
                capture_output=True,
                text=True,
                errors="replace",
                timeout=_LIMIT,
                check=False,
            )
        except (OSError, subprocess.TimeoutExpired) as error:
            return f"git: {getattr(error, 'strerror', '') or error}"
        return " ".join(done.stderr.split()) if done.returncode else ""


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
