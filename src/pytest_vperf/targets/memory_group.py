"""A control group that many targets share, with one limit of memory for all of them.

What they take beyond it is refused to them, and to nobody else: the kernel ends one of *their* processes. Which one
is said beforehand, by the score that every process has (proc(5), ``oom_score_adj``): one that has just started before
one that has settled, and each of them before everything else on the host, should that run out of memory too.

The group is ``/vperf-RUN.densityN``, of version 1 or 2. libvirt, which makes groups for machines itself, takes it as
a partition: the point in its name keeps libvirt from adding ``.partition`` to it, and it then has to be there in
every hierarchy (https://libvirt.org/cgroups.html).
"""

from __future__ import annotations

import contextlib
import itertools
import os
import signal
from pathlib import Path
from typing import TYPE_CHECKING

from pytest_vperf.machine import cgroups
from pytest_vperf.machine.procfile import content
from pytest_vperf.targets.base import CannotStart
from pytest_vperf.targets.control_group import ControlGroup
from pytest_vperf.targets.limits import Limits

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from pytest_vperf.machine.runs import Run

_numbers = itertools.count(1)
#: The scores of processes (proc(5)): from -1000, never chosen, to 1000, before all others.
STARTING, SETTLED = 1000, 500


class MemoryGroup:
    """A shared group, for as long as it is not closed.

    Args:
        run: whose group it is.
        limit: bytes, without swap.
        target: for whom, in messages.

    Attributes:
        limit: bytes.

    Raises:
        Unavailable: this user may not make control groups, or no hierarchy has memory.
        CannotStart: the system has another limit than was asked for.
    """

    def __init__(self, run: Run, limit: int, target: str) -> None:
        self.limit = limit
        name = f"{run.cgroup}.density{next(_numbers)}"
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
        """Its path in the hierarchy, as engines want the parent of a container's group."""
        return f"/{self._group.name}"

    @property
    def details(self) -> Mapping[str, str]:
        """The limit as it was read back, by a name that tells it from a limit of one target."""
        return {f"shared_{name}": value for name, value in self._group.details.items()}

    def everywhere(self) -> str:
        """Make it in the other hierarchies, too, without limits there; its path, as libvirt wants a partition.

        Raises:
            CannotStart: one of them refuses.
        """
        for controller, point in cgroups.hierarchies().items():
            folder = point / self._group.name
            try:
                folder.mkdir(exist_ok=True)
                # A new group of version 1 has neither, and takes no process then (cgroup-v1/cpusets). It may have
                # been made for another controller of the same hierarchy.
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
        """The group as one of those has it that share it."""
        return Member(self)

    @property
    def used(self) -> int:
        """Bytes that its processes have of memory, files in the page cache included.

        Raises:
            OSError: it cannot be read.
        """
        name = "memory.usage_in_bytes" if self._version == 1 else "memory.current"
        return int((self._folder / name).read_text())

    def _listen(self) -> None:
        """Have the kernel tell each time that the group's memory is full (cgroup-v1/memory, "OOM Control").

        It tells the group that has the limit, whichever process below it then ends.
        """
        self._events = os.eventfd(0, os.EFD_CLOEXEC | os.EFD_NONBLOCK)
        # A kernel that tells no more still counts, if only as long as the group is there whose process was ended.
        with contextlib.suppress(OSError), (self._folder / "memory.oom_control").open() as control:
            line = f"{self._events} {control.fileno()}"
            (self._folder / "cgroup.event_control").write_text(line)

    @property
    def kills(self) -> int:
        """How many processes in it, and below, the kernel has ended for want of memory.

        ``oom_kill`` in ``memory.events`` of version 2, which counts what is below, too. Version 1 counts it in the
        group of the process that was ended (``memory.oom_control``, since Linux 4.13), and a machine's goes with the
        machine: there the kernel tells the group whose memory was full.
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
            # A group may go while it is looked at.
            found += cgroups.numbers(content(Path(folder) / "cgroup.procs") or "")
        return found

    def end(self, processes: Iterable[int]) -> None:
        """Kill some of its processes."""
        for pid in processes:
            with contextlib.suppress(OSError):
                os.kill(pid, signal.SIGKILL)

    def close(self) -> None:
        """End what is still in it, and remove it. Safe to repeat."""
        for _ in range(10):  # a process may fork between the look and the signal
            left = self.processes
            if not left:
                break
            self.end(left)
        if self._events >= 0:
            os.close(self._events)
            self._events = -1
        self._group.close()
        # Runtimes and libvirt have it, and what they made below it, in other hierarchies, too.
        for point in dict.fromkeys(cgroups.hierarchies().values()):
            cgroups.remove(point / self._group.name)


class Member:
    """A shared group, for one of those that share it: its end does not end the group.

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
        """Others are still in it."""


def set_score(pid: int, score: int) -> None:
    """Say how early a process is to be ended for want of memory; nothing where it is gone, or somebody else's."""
    with contextlib.suppress(OSError):
        Path(f"/proc/{pid}/oom_score_adj").write_text(str(score))


def _hold_below(folder: Path, target: str) -> None:
    """Have a group of version 1 hold what is in the groups below it, too.

    Linux does since 5.11; before, only where the group was told to (cgroup-v1/memory, "Hierarchy support"), as
    systemd does for all.

    Raises:
        CannotStart: it cannot be told.
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
