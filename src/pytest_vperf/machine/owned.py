"""The processes of a run, or of a part of one: by their environment, their folder, or their control group."""

from __future__ import annotations

import contextlib
from pathlib import Path

import psutil

from pytest_vperf.machine import cgroups, users
from pytest_vperf.machine.marks import environment, own_line


def owned_by(mark: str, folder: Path, cgroup: str) -> list[psutil.Process]:
    """The processes of a run, or of a part of one, without this process and its ancestors.

    Args:
        mark: the variable in their environment that names ``folder``.
        folder: their folder: what works in it, or has it in its command line, is theirs too.
        cgroup: the name of their control group.
    """
    spared = own_line()
    found: dict[int, psutil.Process] = {}
    for process in psutil.process_iter():
        with contextlib.suppress(psutil.Error, OSError):
            if (
                process.pid not in spared
                and users.ours(process.uids().real)
                and _belongs(process, mark, folder)
            ):
                found[process.pid] = process
                for child in process.children(recursive=True):
                    found.setdefault(child.pid, child)
    for pid in cgroups.members(cgroup):
        with contextlib.suppress(psutil.Error):
            found.setdefault(pid, psutil.Process(pid))
    return [found[pid] for pid in sorted(found) if pid not in spared]


def _belongs(process: psutil.Process, mark: str, folder: Path) -> bool:
    if environment(process).get(mark) == str(folder):
        return True
    if process.terminal() is not None:
        return False  # somebody's shell or pager that looks into the folder; ours have no terminal
    # A runtime may clear its environment (gVisor's sandbox does): then its folder tells, or its words.
    return Path(process.cwd()).is_relative_to(folder) or any(
        f"{folder}/" in word for word in process.cmdline()
    )
