"""Whose something is that lives at a daemon that is not ours: what its labels say of the run that made it."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from pytest_vperf.machine.runs import (
    LABEL_FOLDER,
    LABEL_PLACE,
    LABEL_RUN,
    is_alive,
    place,
    runs_folder,
)

if TYPE_CHECKING:
    from collections.abc import Mapping


def dead_run(labels: Mapping[str, str]) -> str:
    """The dead run of this machine and user that labels name; empty: there is none, it lives, or it is another's.

    Args:
        labels: as of `Run.labels`, among others.

    Raises:
        PermissionError: the folder of the runs belongs to somebody else.
    """
    run, folder = labels.get(LABEL_RUN, ""), Path(labels.get(LABEL_FOLDER, ""))
    if not run or labels.get(LABEL_PLACE) != place() or folder.parent != runs_folder():
        return ""
    return "" if is_alive(folder) else run
