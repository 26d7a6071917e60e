"""The folder of a test session: with a short path, and known to the next session where this one was killed."""

from __future__ import annotations

import contextlib
import os
import re
from pathlib import Path
from typing import TYPE_CHECKING

import psutil
import pytest
from filelock import FileLock

from pytest_vperf.lab import labs
from pytest_vperf.lab.kinds import KINDS
from pytest_vperf.machine import leftovers, mounts, runs

if TYPE_CHECKING:
    from collections.abc import Iterator

#: Its name has the number of the process whose it is. A Unix socket's path may have 107 bytes, so it is short.
_NAME = re.compile(r"vpt-(\d+)")
#: Its part for the labs that tests share.
LABS = "labs"


@contextlib.contextmanager
def session_folder(home: Path = Path("/tmp")) -> Iterator[Path]:
    """Make it, after what killed sessions started is ended; it goes away in the end.

    Args:
        home: of all such folders.
    """
    with FileLock(home / f"vpt-{os.getuid()}.lock"):
        for folder in home.iterdir():
            name = _NAME.fullmatch(folder.name)
            if name and folder.lstat().st_uid == os.getuid() and _is_dead(int(name[1])):
                end(folder)
        folder = home / f"vpt-{os.getpid()}"
        folder.mkdir(mode=0o700)
    try:
        yield folder
    finally:
        runs.remove_tree(folder)


def _is_dead(number: int) -> bool:
    # One with our own number was another process's, which had it before.
    return number == os.getpid() or not psutil.pid_exists(number)


def end(folder: Path) -> None:
    """End the runs and labs that have their folders in a session's, and remove it."""
    places = {
        found.parent
        for depth in ("*", "*/*")
        for what in ("run-*", "lab-*")
        for found in folder.glob(f"{depth}/{what}")
    }
    for place in places:
        with pytest.MonkeyPatch.context() as patch:
            patch.setenv("VPERF_RUNS_DIR", str(place))
            leftovers.sweep()
            for kind in KINDS:
                labs.down(kind)
    for point in mounts.below(folder):
        mounts.unmount(point)
    runs.remove_tree(folder)
