"""The processes of a run, or of a part of one: found by a mark in their environment, their folder, or their control
group.
"""

from __future__ import annotations

import contextlib
import time
from pathlib import Path
from typing import TYPE_CHECKING

import psutil

from pytest_vperf.machine import cgroups, ownership

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator


def own_line() -> set[int]:
    """This process and its ancestors, which are never ended, whatever they look like."""
    me = psutil.Process()
    return {me.pid, *(parent.pid for parent in me.parents())}


def environment(process: psutil.Process) -> dict[str, str]:
    """The environment a process was started with; empty where it cannot be read."""
    with contextlib.suppress(psutil.Error, OSError):
        return process.environ()
    return {}


def marked(name: str, value: str) -> Iterator[psutil.Process]:
    """The processes started with ``name=value``, without this process and its ancestors."""
    spared = own_line()
    for process in psutil.process_iter():
        if process.pid not in spared and environment(process).get(name) == value:
            yield process


def describe(process: psutil.Process) -> str:
    """One line about a process: its number and the beginning of its command."""
    try:
        command = " ".join(process.cmdline()) or process.name()
    except psutil.Error:
        command = "gone"
    return f"process {process.pid}: {command[:80]}"


def gone(process: psutil.Process) -> bool:
    """Whether a process has ended; a zombie counts as ended."""
    try:
        return not process.is_running() or process.status() in (
            psutil.STATUS_ZOMBIE,
            psutil.STATUS_DEAD,
        )
    except psutil.Error:
        return True


def wait_gone(processes: Iterable[psutil.Process], timeout: float) -> list[psutil.Process]:
    """Wait for the end of processes, children or not; return those still alive after ``timeout`` s."""
    deadline = time.monotonic() + timeout
    alive = [process for process in processes if not gone(process)]
    while alive and time.monotonic() < deadline:
        time.sleep(0.01)
        alive = [process for process in alive if not gone(process)]
    return alive


def end(processes: Iterable[psutil.Process], *, timeout: float = 5.0) -> list[psutil.Process]:
    """Kill processes and wait for their end; return those still alive after ``timeout`` s."""
    victims = list(processes)
    for process in victims:
        with contextlib.suppress(psutil.Error):
            process.kill()
    return wait_gone(victims, timeout)


def owned_by(mark: str, folder: Path, cgroup: str) -> list[psutil.Process]:
    """The processes of a run, or of a part of one, without this process and its ancestors.

    Args:
        mark: the variable in their environment that names ``folder``.
        folder: their folder; a process that works in it, or names it in its command line, is included too.
        cgroup: the name of their control group.
    """
    spared = own_line()
    found: dict[int, psutil.Process] = {}
    for process in psutil.process_iter():
        with contextlib.suppress(psutil.Error, OSError):
            if (
                process.pid not in spared
                and ownership.ours(process.uids().real)
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
        return False  # somebody's shell or pager in the folder; ours have no terminal
    # A runtime may clear its environment (gVisor's sandbox does): its working folder or its arguments still show it.
    return Path(process.cwd()).is_relative_to(folder) or any(
        f"{folder}/" in word for word in process.cmdline()
    )
