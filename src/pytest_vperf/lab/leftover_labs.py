"""The user's labs that are broken: found, shown and removed like what killed runs left.

A lab of a run is the run's, and found by the run's marks. The user's own lab has no owner that lives: it is left
alone as long as it answers, or is being started.
"""

from __future__ import annotations

import contextlib
import os
import shutil
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

import psutil

from pytest_vperf.lab import state
from pytest_vperf.machine import marks
from pytest_vperf.machine.leftovers import Leftover
from pytest_vperf.machine.runs import runs_folder

if TYPE_CHECKING:
    from collections.abc import Iterator


def find() -> list[Leftover]:
    """What is left of labs of the user's that do not answer, in the order it is to be removed.

    Raises:
        PermissionError: the folder of the runs belongs to somebody else.
    """
    found: list[Leftover] = []
    for folder in sorted({*state.user_folders(), *_of_processes()}):
        if state.being_started(folder) or state.healthy(folder) is not None:
            continue
        for process in state.processes(folder):
            what = marks.describe(process)
            found.append(Leftover(folder.name, "process", what, partial(_end, process)))
        if state.is_ours(folder):
            what = f"folder {folder}"
            found.append(Leftover(folder.name, "folder", what, partial(_remove, folder)))
    return sorted(found, key=lambda leftover: leftover.kind == "folder")


def up() -> list[state.State]:
    """The user's labs that are up."""
    found = (state.healthy(folder) for folder in state.user_folders())
    return [each for each in found if each is not None]


def left_alone() -> list[str]:
    """One line for each of them."""
    return [f"lab {each.kind} is up (to end it: vperf lab down {each.kind})" for each in up()]


def _of_processes() -> Iterator[Path]:
    """The folders of the user's labs as the marks of processes have them, there or gone."""
    home = runs_folder()
    for process in psutil.process_iter():
        with contextlib.suppress(psutil.Error, OSError):
            if process.uids().real != os.getuid():
                continue
            folder = Path(marks.environment(process).get(state.MARK, ""))
            if folder.parent == home and folder.name.startswith("lab-"):
                yield folder


def _end(process: psutil.Process) -> str:
    return "it does not end" if marks.end([process]) else ""


def _remove(folder: Path) -> str:
    if state.is_ours(folder):  # still
        shutil.rmtree(folder)
    return ""
