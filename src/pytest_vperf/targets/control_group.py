"""A control group of the run's own: what holds commands of the host, and the QEMU of a pod, to their limits.

The group is ``vperf-RUN/NAME`` in each hierarchy that its limits need, of version 1 where the controller is in one,
else of version 2. A process is put into it before it executes its program. Everything is read back.
"""

from __future__ import annotations

import contextlib
import errno
import itertools
import os
import signal
from pathlib import Path
from typing import TYPE_CHECKING, Protocol

from pytest_vperf.machine import cgroups
from pytest_vperf.targets.base import CannotStart, Unavailable
from pytest_vperf.targets.setting import check

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from pytest_vperf.machine.runs import Run
    from pytest_vperf.targets.limits import Limits

_numbers = itertools.count(1)

#: Writes itself into each of the files that are named first, then becomes the command. A group is joined before the
#: command's first instruction; the words of a group that refuses are the shell's.
_JOIN = (
    'n=$1; shift; while [ "$n" -gt 0 ]; do echo $$ >"$1" || exit 126; shift; n=$((n - 1)); done;'
    ' exec "$@"'
)


class Group(Protocol):
    """What holds a process to limits: a group of its own, or one that it shares with others."""

    @property
    def details(self) -> Mapping[str, str]:
        """The limits as they were read back."""
        ...

    def entered(self, argv: Sequence[str]) -> list[str]:
        """A command that joins the group and then is ``argv``."""
        ...

    def check_member(self, pid: int) -> None:
        """Make sure that a process is in the group, with all of its threads.

        Raises:
            CannotStart: it is not.
        """
        ...

    def close(self) -> None:
        """Let go of it; one of its own ends with that."""
        ...


class ControlGroup:
    """A group with limits, for as long as it is not closed.

    Args:
        run: whose group it is below.
        limits: what it holds its processes to; at least one.
        target: for whom, in messages.
        name: of the group, where it is not to be one of the run's group; it begins with that one's.

    Attributes:
        details: the limits as they were read back.

    Raises:
        Unavailable: this user may not make control groups, or no hierarchy has the controller.
        CannotStart: the system does not take a limit, or has another than was asked for.
    """

    def __init__(self, run: Run, limits: Limits, target: str, *, name: str = "") -> None:
        self._name = name or f"{run.cgroup}/{target.split()[0]}{next(_numbers)}"
        self._target = target
        self._limits = limits
        self._places = {name: _place(name, target) for name in limits.controllers}
        self._folders = list(
            dict.fromkeys(point / self._name for point, _ in self._places.values())
        )
        self._run_folders = [folder.parent for folder in self._folders]
        try:
            for controller, (point, version) in self._places.items():
                _make(point, self._name, controller, version)
                self._write(controller, point / self._name, version)
            self.details: Mapping[str, str] = self.read_back()
        except OSError as error:
            self.close()
            # Root of a container is refused, too: its control groups are read-only, or belong to processes (EBUSY).
            remedy = "in a container, run it with --privileged --cgroupns=host"
            raise Unavailable(
                f"limits need a control group, and {error.filename} cannot be written: {error.strerror}",
                remedy="run as root" if os.geteuid() else remedy,
                target=target,
            ) from error
        except BaseException:
            self.close()
            raise

    def _write(self, controller: str, folder: Path, version: int) -> None:
        for setting in self._limits.settings(controller, version):
            path = folder / setting.file
            if not setting.written or (setting.optional and not path.exists()):
                continue
            try:
                path.write_text(setting.value)
            except OSError as error:
                if error.errno in (errno.EACCES, errno.EPERM, errno.EROFS):
                    raise
                raise CannotStart(
                    f"{self._target}: {setting.name} {setting.value!r} is refused: {path}: {error.strerror}",
                    target=self._target,
                ) from error

    @property
    def name(self) -> str:
        """The group's, seen from the top of each hierarchy."""
        return self._name

    def place(self, controller: str) -> tuple[Path, int]:
        """The group's folder in the hierarchy of one of its controllers, and that one's version."""
        point, version = self._places[controller]
        return point / self._name, version

    def read_back(self) -> dict[str, str]:
        """The limits, as the files have them now.

        Raises:
            CannotStart: one is not what was asked for.
        """
        found: dict[str, str] = {}
        for controller, (point, version) in self._places.items():
            settings = self._limits.settings(controller, version)
            found |= check(settings, point / self._name, self._target)
        return found

    def entered(self, argv: Sequence[str]) -> list[str]:
        """A command that joins the group and then is ``argv``."""
        files = [str(folder / "cgroup.procs") for folder in self._folders]
        return ["/bin/sh", "-c", _JOIN, "sh", str(len(files)), *files, *argv]

    def check_member(self, pid: int) -> None:
        """Make sure that a process is in the group, with all of its threads.

        Raises:
            CannotStart: it is not.
        """
        try:
            threads = list(Path(f"/proc/{pid}/task").iterdir())
        except OSError:
            raise CannotStart(
                f"{self._target}: process {pid} has ended", target=self._target
            ) from None
        for thread in threads:
            paths = cgroups.paths_of(f"{pid}/task/{thread.name}")
            for controller, (_, version) in self._places.items():
                path = paths.get("" if version == 2 else _old(controller), "")
                if paths and path != f"/{self._name}":
                    raise CannotStart(
                        f"{self._target}: asked for the control group /{self._name}, thread {thread.name}"
                        f" of process {pid} is in {path or 'none'} of {controller}",
                        target=self._target,
                    )

    def close(self) -> None:
        """End what is still in the group, remove it, and the run's if it is empty. Safe to repeat."""
        for folder in self._folders:
            if folder.is_dir():
                _end_members(folder)
                cgroups.remove(folder)
        for folder in self._run_folders:
            with contextlib.suppress(OSError):  # others of the run are in it, or it is gone
                folder.rmdir()


def _end_members(folder: Path) -> None:
    """Kill what is in a group: a process that dropped its environment is known as the run's by nothing else."""
    for _ in range(10):  # a process may fork between the look and the signal
        try:
            members = cgroups.numbers((folder / "cgroup.procs").read_text())
        except OSError:
            return
        if not members:
            return
        for pid in members:
            with contextlib.suppress(OSError):
                os.kill(pid, signal.SIGKILL)


def _old(controller: str) -> str:
    return "blkio" if controller == "io" else controller


def _place(controller: str, target: str) -> tuple[Path, int]:
    """Where the groups of a controller are, and their version."""
    found = cgroups.hierarchies()
    if _old(controller) in found:
        return found[_old(controller)], 1
    unified = found.get("")
    if unified is not None:
        with contextlib.suppress(OSError):
            if controller in (unified / "cgroup.controllers").read_text().split():
                return unified, 2
    raise Unavailable(
        f"no control group hierarchy of this machine has the controller {_old(controller)}",
        target=target,
    )


def _make(point: Path, name: str, controller: str, version: int) -> None:
    """Make a group and those above it, and let it have the controller."""
    folder = point
    for part in name.split("/"):
        if version == 2:
            control = folder / "cgroup.subtree_control"
            if controller not in control.read_text().split():
                control.write_text(f"+{controller}")
        folder = folder / part
        with contextlib.suppress(FileExistsError):
            os.mkdir(folder)  # noqa: PTH102 - its error has the path, as writing has
        if controller == "cpuset" and version == 1:
            # A new group has no CPUs and no memory nodes, and takes no process then (admin-guide/cgroup-v1/cpusets).
            for file in ("cpuset.cpus", "cpuset.mems"):
                if not (folder / file).read_text().strip():
                    (folder / file).write_text((folder.parent / file).read_text())
