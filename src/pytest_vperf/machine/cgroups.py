"""The control groups of a run: found by name in every hierarchy, read, and removed.

A run's group is named ``vperf-ID`` and is at the root of each hierarchy, version 1 or 2.
"""

from __future__ import annotations

import contextlib
import os
import time
from pathlib import Path
from typing import TYPE_CHECKING

from pytest_vperf.machine.mounts import mounts
from pytest_vperf.machine.procfile import text

if TYPE_CHECKING:
    from pytest_vperf.machine.procfile import Read


def hierarchies(read: Read = text) -> dict[str, Path]:
    """The hierarchies: controller, such as ``cpu``, → mount point; version 2 is under ``""``.

    Args:
        read: reads the machine's files.
    """
    found: dict[str, Path] = {}
    for mount in mounts(read):
        if mount.kind == "cgroup2":
            found.setdefault("", mount.point)
        elif mount.kind == "cgroup":
            for option in mount.options:
                if option not in ("rw", "ro"):
                    found.setdefault(option, mount.point)
    return found


def named(name: str) -> list[Path]:
    """The folders of a group, and of its run's sibling groups (``NAME.…``), in every hierarchy."""
    points = dict.fromkeys(hierarchies().values())
    beside = (group for point in points for group in sorted(point.glob(f"{name}.*")))
    return [group for group in (*(point / name for point in points), *beside) if group.is_dir()]


def of_machines(name: str) -> list[Path]:
    """The groups, in every hierarchy, that libvirt made for a run's machines and could not remove.

    Without systemd they are ``machine/qemu-NUMBER-MACHINE.libvirt-qemu`` (https://libvirt.org/cgroups.html).
    """
    points = dict.fromkeys(hierarchies().values())
    return [group for point in points for group in point.glob(f"machine/qemu-*-{name}-*")]


def forgotten_machines(*, older: float = 60.0) -> dict[Path, str]:
    """Groups of runs' machines without any process → the run's ID: libvirt ended before it removed them.

    Args:
        older: minimum age in seconds; a machine that is being created has no process yet.
    """
    found = {}
    for group in of_machines("vperf"):
        run = group.name.partition("-vperf-")[2].partition("-")[0]
        with contextlib.suppress(OSError):
            old = time.time() - group.stat().st_mtime > older
            if old and not any(_has_process(each) for each in group.rglob("cgroup.procs")):
                found[group] = run
    return found


def _has_process(file: Path) -> bool:
    # A group of version 2 with threads elsewhere cannot be read; one in use could not be removed anyway.
    try:
        return bool(file.read_text())
    except OSError:
        return False


def paths_of(pid: int | str, read: Read = text) -> dict[str, str]:
    """The groups of a process: controller → path in its hierarchy; version 2 is under ``""``.

    Empty if the process is gone or may not be inspected.

    Args:
        pid: the process; or ``PID/task/THREAD``.
        read: reads the machine's files.
    """
    found: dict[str, str] = {}
    with contextlib.suppress(OSError):
        for line in read(Path(f"/proc/{pid}/cgroup")).splitlines():
            _, controllers, path = line.split(":", 2)
            for controller in controllers.split(","):
                found[controller] = path
    return found


def members(name: str) -> list[int]:
    """The processes in the group ``name``, its siblings (``NAME.…``) and subgroups, in any hierarchy."""

    def inside(path: str) -> bool:
        return any(part == name or part.startswith(f"{name}.") for part in path.split("/"))

    return [
        int(entry)
        for entry in os.listdir("/proc")  # noqa: PTH208 - names are all that is wanted
        if entry.isdigit() and any(map(inside, paths_of(entry).values()))
    ]


def numbers(procs: str) -> list[int]:
    """The processes that a file ``cgroup.procs`` lists.

    Version 2 lists processes of another namespace as 0, which kill(2) takes for the caller's own process group.

    Args:
        procs: the file's text.
    """
    return [pid for pid in map(int, procs.split()) if pid > 0]


def remove(folder: Path, *, timeout: float = 3.0) -> str:
    """Remove a group and its subgroups; return the system's error if it is still in use, otherwise empty.

    A group stays busy for a moment after its last process ended, hence the timeout.
    """
    deadline = time.monotonic() + timeout
    while True:
        error = _remove_once(folder)
        if not error or time.monotonic() > deadline:
            return error
        time.sleep(0.02)


def _remove_once(folder: Path) -> str:
    try:
        for inner, _, _ in os.walk(folder, topdown=False):
            Path(inner).rmdir()
    except FileNotFoundError:
        pass
    except OSError as error:
        return f"{error.filename}: {error.strerror}"
    return ""
