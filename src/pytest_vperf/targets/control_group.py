"""The run's control groups, which limit commands on the host and the QEMU of a pod.

The group is ``vperf-RUN/NAME`` in each hierarchy that its limits need: of version 1 if the controller is in one, else
of version 2. A process joins it before it executes its program. All limits are read back.

A group can be shared by many targets, with one memory limit for all. If they exceed it, the kernel ends one of
*their* processes, and none of others. Each process's score (proc(5), ``oom_score_adj``) decides which: one that has
just started before one that has settled, and any of them before all else on the host, should that run out of memory
too.

A shared group is ``/vperf-RUN.densityN``, of version 1 or 2. libvirt, which makes the groups of machines itself, uses
it as a partition: the dot in its name keeps libvirt from adding ``.partition``, and it has to exist in every
hierarchy (https://libvirt.org/cgroups.html).
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
from pytest_vperf.machine.procfile import content
from pytest_vperf.targets.base import CannotStart, Unavailable
from pytest_vperf.targets.limits import Limits, check

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from pytest_vperf.machine.runs import Run


_numbers = itertools.count(1)

#: Writes its process ID to each of the files given first, then becomes the command, which so joins the groups before
#: its first instruction. If a group refuses, the shell prints the error.
_JOIN = (
    'n=$1; shift; while [ "$n" -gt 0 ]; do echo $$ >"$1" || exit 126; shift; n=$((n - 1)); done;'
    ' exec "$@"'
)


class Group(Protocol):
    """A control group that limits a process: its own, or one shared with others."""

    @property
    def details(self) -> Mapping[str, str]:
        """The limits, as read back."""
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
        """Leave it; a group of one's own is removed."""
        ...


class ControlGroup:
    """A group with limits; exists until closed.

    Args:
        run: its group is the parent.
        limits: at least one.
        target: the target's name, for messages.
        name: of a group beside the run's, whose name it begins with; empty for one below it.

    Attributes:
        details: the limits, as read back.

    Raises:
        Unavailable: this user may not make control groups, or no hierarchy has the controller.
        CannotStart: the system rejects a limit, or a limit is not as requested.
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
            # Root in a container fails, too: its control groups are read-only, or contain processes (EBUSY).
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
        """The group's path from the root of each hierarchy."""
        return self._name

    def place(self, controller: str) -> tuple[Path, int]:
        """The group's folder in the hierarchy of one of its controllers, and that one's version."""
        point, version = self._places[controller]
        return point / self._name, version

    def read_back(self) -> dict[str, str]:
        """The limits, as read back now.

        Raises:
            CannotStart: one is not as requested.
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
        """End the processes in the group and remove it, and the run's if that is empty. Safe to repeat."""
        for folder in self._folders:
            if folder.is_dir():
                _end_members(folder)
                cgroups.remove(folder)
        for folder in self._run_folders:
            with contextlib.suppress(OSError):  # the run still uses it, or it is gone
                folder.rmdir()


def _end_members(folder: Path) -> None:
    """Kill the processes in a group: nothing else identifies one that dropped its environment as the run's."""
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
    """The mount point of a controller's hierarchy, and its version."""
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
    """Create a group and its parents, and enable the controller in it."""
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
            # A new group has no CPUs and memory nodes, so no process can join it (admin-guide/cgroup-v1/cpusets).
            for file in ("cpuset.cpus", "cpuset.mems"):
                if not (folder / file).read_text().strip():
                    (folder / file).write_text((folder.parent / file).read_text())


_memory_group_numbers = itertools.count(1)
#: Scores of processes (proc(5)), from -1000, never chosen, to 1000, chosen first.
STARTING, SETTLED = 1000, 500


class MemoryGroup:
    """A shared group; exists until closed.

    Args:
        run: owns it.
        limit: bytes, without swap.
        target: the targets' name, for messages.

    Attributes:
        limit: bytes.

    Raises:
        Unavailable: this user may not create control groups, or no hierarchy has the memory controller.
        CannotStart: the limit is not as requested.
    """

    def __init__(self, run: Run, limit: int, target: str) -> None:
        self.limit = limit
        name = f"{run.cgroup}.density{next(_memory_group_numbers)}"
        self._group = ControlGroup(run, Limits(memory=limit), target, name=name)
        self._folder, self._version = self._group.place("memory")
        self._told, self._events = 0, -1
        if self._version == 1:
            try:
                _hold_below(self._folder, target)
                self._listen()
            except BaseException:
                self._group.close()
                raise

    @property
    def path(self) -> str:
        """Its path in the hierarchy, for engines, as the parent of a container's group."""
        return f"/{self._group.name}"

    @property
    def details(self) -> Mapping[str, str]:
        """The limit, as read back, under another name than a target's own limit."""
        return {f"shared_{name}": value for name, value in self._group.details.items()}

    def everywhere(self) -> str:
        """Create it in the other hierarchies, too, without limits; return its path, for libvirt, as a partition.

        Raises:
            CannotStart: it cannot be created in one of them.
        """
        for controller, point in cgroups.hierarchies().items():
            folder = point / self._group.name
            try:
                folder.mkdir(exist_ok=True)
                # A new group of version 1 has neither, so no process can join it (cgroup-v1/cpusets). It may already
                # exist, for another controller of the same hierarchy.
                for file in ("cpuset.cpus", "cpuset.mems") if controller == "cpuset" else ():
                    if not (folder / file).read_text().strip():
                        (folder / file).write_text((point / file).read_text())
            except OSError as error:
                raise CannotStart(
                    f"a group for libvirt's machines cannot be made: {error.filename}: {error.strerror}"
                ) from error
        return self.path

    def entered(self, argv: Sequence[str]) -> list[str]:
        """A command that joins the group and then is ``argv``."""
        return self._group.entered(argv)

    def check_member(self, pid: int) -> None:
        """See `ControlGroup.check_member`."""
        self._group.check_member(pid)

    def member(self) -> Member:
        """The group, as given to one of the targets that share it."""
        return Member(self)

    @property
    def used(self) -> int:
        """Bytes of memory of its processes, including the page cache.

        Raises:
            OSError: it cannot be read.
        """
        name = "memory.usage_in_bytes" if self._version == 1 else "memory.current"
        return int((self._folder / name).read_text())

    def _listen(self) -> None:
        """Have the kernel signal each time that the group runs out of memory (cgroup-v1/memory, "OOM Control").

        The group with the limit is notified, whichever process below it is then ended.
        """
        self._events = os.eventfd(0, os.EFD_CLOEXEC | os.EFD_NONBLOCK)
        # Without notification there are still the counters, as long as the group of the ended process exists.
        with contextlib.suppress(OSError), (self._folder / "memory.oom_control").open() as control:
            line = f"{self._events} {control.fileno()}"
            (self._folder / "cgroup.event_control").write_text(line)

    @property
    def kills(self) -> int:
        """How many processes in it, and below, the OOM killer has ended.

        Version 2 has ``oom_kill`` in ``memory.events``, which includes groups below. Version 1 counts in the group of
        the ended process (``memory.oom_control``, since Linux 4.13), and a machine's group is removed with it: so
        there we count the kernel's notifications to the group that was full.
        """
        if self._version == 2:
            return _number_in(self._folder / "memory.events", "oom_kill")
        if self._events >= 0:
            with contextlib.suppress(BlockingIOError):
                self._told += os.eventfd_read(self._events)
        inner = (Path(folder) for folder, _, _ in os.walk(self._folder))
        counted = sum(_number_in(folder / "memory.oom_control", "oom_kill") for folder in inner)
        return max(self._told, counted)

    @property
    def processes(self) -> list[int]:
        """The processes in it and below."""
        found: list[int] = []
        for folder, _, _ in os.walk(self._folder):
            # A group may vanish while it is read.
            found += cgroups.numbers(content(Path(folder) / "cgroup.procs") or "")
        return found

    def end(self, processes: Iterable[int]) -> None:
        """Kill some of its processes."""
        for pid in processes:
            with contextlib.suppress(OSError):
                os.kill(pid, signal.SIGKILL)

    def close(self) -> None:
        """End the processes in it, and remove it. Safe to repeat."""
        for _ in range(10):  # a process may fork between the look and the signal
            left = self.processes
            if not left:
                break
            self.end(left)
        if self._events >= 0:
            os.close(self._events)
            self._events = -1
        self._group.close()
        # Runtimes and libvirt create it, and groups below it, in other hierarchies, too.
        for point in dict.fromkeys(cgroups.hierarchies().values()):
            cgroups.remove(point / self._group.name)


class Member:
    """A shared group, as given to one of the targets that share it: closing it does not remove the group.

    Args:
        group: the shared one.
    """

    def __init__(self, group: MemoryGroup) -> None:
        self._group = group

    @property
    def details(self) -> Mapping[str, str]:
        """See `MemoryGroup.details`."""
        return self._group.details

    def entered(self, argv: Sequence[str]) -> list[str]:
        """See `MemoryGroup.entered`."""
        return self._group.entered(argv)

    def check_member(self, pid: int) -> None:
        """See `MemoryGroup.check_member`."""
        self._group.check_member(pid)

    def close(self) -> None:
        """Do nothing: others may still be in it."""


def set_score(pid: int, score: int) -> None:
    """Set a process's OOM score adjustment; ignored if it is gone or another user's."""
    with contextlib.suppress(OSError):
        Path(f"/proc/{pid}/oom_score_adj").write_text(str(score))


def _hold_below(folder: Path, target: str) -> None:
    """Have the limit of a group of version 1 include the groups below it.

    Linux always does since 5.11; older versions only on request (cgroup-v1/memory, "Hierarchy support"), which
    systemd makes for all groups.

    Raises:
        CannotStart: it cannot be set.
    """
    switch = folder / "memory.use_hierarchy"
    if (content(switch) or "").strip() != "0":
        return
    try:
        switch.write_text("1")
    except OSError as error:
        raise CannotStart(
            f"{target}: a group that holds those below it is refused: {switch}: {error.strerror}",
            target=target,
        ) from error


def _number_in(path: Path, name: str) -> int:
    for line in (content(path) or "").splitlines():
        key, _, value = line.partition(" ")
        if key == name:
            return int(value)
    return 0
