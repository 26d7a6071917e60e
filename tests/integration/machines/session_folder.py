"""The folder of a test session: it has a short path, and the next session finds it if this one is killed."""

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

#: Its name contains its process's PID. It is short, since a Unix socket's path may have at most 107 bytes.
_NAME = re.compile(r"vpt-(\d+)")
#: Its part for the labs that tests share.
LABS = "labs"


@contextlib.contextmanager
def session_folder(home: Path = Path("/tmp")) -> Iterator[Path]:
    """Make it, after ending what killed sessions started; it is removed at the end.

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
    # A folder with our own PID belonged to an earlier process.
    return number == os.getpid() or not psutil.pid_exists(number)


def end(folder: Path) -> None:
    """End the runs and labs with folders in a session's folder, and remove it."""
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
