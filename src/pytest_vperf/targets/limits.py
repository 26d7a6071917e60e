"""Limits, by the same names on every kind of target, and the files of control groups that they are in.

A limit is read back before the target is used (design rule 11): a container's engine, and even a kernel, may accept a
request and not enforce it. Files and their meaning: kernel documentation, admin-guide/cgroup-v1 (cpusets, memory,
blkio-controller, pids), scheduler/sched-bwc, admin-guide/cgroup-v2.
"""

from __future__ import annotations

import math
import re
import resource
from dataclasses import dataclass
from typing import TYPE_CHECKING

from pytest_vperf.machine.procfile import text
from pytest_vperf.quantity import amount
from pytest_vperf.targets.base import CannotStart

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence
    from pathlib import Path

    from pytest_vperf.machine.procfile import Read


@dataclass(frozen=True)
class Setting:
    """One file of a control group.

    Attributes:
        name: the setting's name in a target's facts.
        file: the file's name.
        value: to be written.
        same: whether a text read back is as requested.
        optional: whether the file may be missing.
        written: whether the file is written to, or only read back.
    """

    name: str
    file: str
    value: str
    same: Callable[[str], bool]
    optional: bool = False
    written: bool = True


def exact(name: str, file: str, value: str) -> Setting:
    """A file with one value, which reads back exactly as written."""
    return Setting(name, file, value, lambda found: found == value)


def among_lines(name: str, file: str, line: str, words: set[str]) -> Setting:
    """A file with a line for each disk, one of which must contain all ``words``, each between spaces or as the
    line."""
    return Setting(
        name,
        file,
        line,
        lambda found: any(words <= {each, *each.split(" ")} for each in found.splitlines()),
    )


def check(
    settings: Iterable[Setting],
    folder: Path,
    target: str,
    *,
    unenforced: str = "",
    read: Read = text,
) -> dict[str, str]:
    """Read settings back from a control group.

    Args:
        settings: the requested ones.
        folder: the group's, of one controller.
        target: the target's name, for messages.
        unenforced: added to the message if it is known why a setting may be missing.
        read: reads files on the group's machine.

    Returns:
        Setting → the text of its file.

    Raises:
        CannotStart: a file has another value than requested, or cannot be read; with both values.
    """
    found = {}
    for setting in settings:
        path = folder / setting.file
        try:
            value = read(path).strip()
        except OSError as error:
            if setting.optional:
                continue
            value = f"nothing: {error.strerror}"
        if not setting.same(value):
            raise CannotStart(
                f"{target}: asked for {setting.name} {setting.value!r}, the system has {value!r}"
                f" in {path}{unenforced}",
                target=target,
            )
        if setting.written:  # otherwise it repeats another file
            found[setting.name] = _line(value, setting.value)
    return found


def _line(text: str, asked: str) -> str:
    """The line for one disk in a file with a line for each."""
    number = asked.partition(" ")[0]
    if ":" not in number:
        return text
    return next(line for line in text.splitlines() if line.partition(" ")[0] == number)


#: The period of a CPU quota in µs, the default of engines and the kernel.
PERIOD = 100_000
_PAGE = resource.getpagesize()
#: Greatest number of a CPU; Linux has at most 8192 (NR_CPUS).
_NUMBER = re.compile("[0-9]{1,5}")


@dataclass(frozen=True)
class DiskCaps:
    """A target's caps for one disk, per second; ``None`` for no cap.

    Attributes:
        device: its path on the host.
        number: its device number, e.g. ``7:0``.
        read_iops: blocks read.
        write_iops: blocks written.
        read_bytes: bytes read.
        write_bytes: bytes written.
    """

    device: str
    number: str
    read_iops: int | None = None
    write_iops: int | None = None
    read_bytes: int | None = None
    write_bytes: int | None = None


#: Name of a cap → the file of version 1, the key in ``io.max`` of version 2, and the engine's argument.
CAPS = {
    "read_iops": ("blkio.throttle.read_iops_device", "riops", "device_read_iops"),
    "write_iops": ("blkio.throttle.write_iops_device", "wiops", "device_write_iops"),
    "read_bytes": ("blkio.throttle.read_bps_device", "rbps", "device_read_bps"),
    "write_bytes": ("blkio.throttle.write_bps_device", "wbps", "device_write_bps"),
}


@dataclass(frozen=True)
class Limits:
    """Requested limits; ``None`` for no limit.

    Attributes:
        cpus: CPU time in CPUs (a quota), e.g. 0.5.
        cpuset: which CPUs it may run on (pinning), e.g. ``0-1``.
        cpu_shares: its weight against others that compete for a CPU; the default is 1024.
        memory: bytes, without swap.
        disks: the caps of each capped disk.
        pids: processes and threads at a time.
    """

    cpus: float | None = None
    cpuset: str | None = None
    cpu_shares: int | None = None
    memory: int | None = None
    disks: tuple[DiskCaps, ...] = ()
    pids: int | None = None

    def __post_init__(self) -> None:
        if self.cpus is not None and not (math.isfinite(self.cpus) and self.cpus >= 0.01):
            raise CannotStart(f"cpus is {self.cpus!r}: the smallest quota is 0.01 CPUs")
        if self.cpuset is not None:
            try:
                cpus_of(self.cpuset)
            except ValueError as error:
                raise CannotStart(f"cpuset is {self.cpuset!r}: {error}") from None
        if self.cpu_shares is not None and not 2 <= self.cpu_shares <= 262_144:
            raise CannotStart(f"cpu_shares is {self.cpu_shares!r}, not between 2 and 262144")
        if self.memory is not None and self.memory < _PAGE:
            raise CannotStart(f"memory is {self.memory!r} bytes, less than a page")
        if self.pids is not None and self.pids < 1:
            raise CannotStart(f"pids is {self.pids!r}: a container has at least one process")

    def __bool__(self) -> bool:
        return self != Limits()

    def settings(self, controller: str, version: int) -> list[Setting]:
        """The limits as files of one controller (``cpu``, ``cpuset``, ``memory``, ``io``, ``pids``).

        Args:
            controller: by its name in version 2; ``io`` is ``blkio`` in version 1.
            version: of control groups.
        """
        make = {
            "cpu": self._cpu,
            "cpuset": self._cpuset,
            "memory": self._memory,
            "io": self._io,
            "pids": self._pids,
        }
        return make[controller](version)

    @property
    def quota(self) -> int | None:
        """The CPU time per `PERIOD`, in µs; ``None`` for no quota."""
        return None if self.cpus is None else round(self.cpus * PERIOD)

    @property
    def controllers(self) -> tuple[str, ...]:
        """The controllers needed, by their names in version 2."""
        every = ("cpu", "cpuset", "memory", "io", "pids")
        return tuple(name for name in every if self.settings(name, 1))

    def _cpu(self, version: int) -> list[Setting]:
        found = []
        if self.cpus is not None:
            if version == 1:
                found += [
                    exact("cpu_period", "cpu.cfs_period_us", str(PERIOD)),
                    exact("cpu_quota", "cpu.cfs_quota_us", str(self.quota)),
                ]
            else:
                found.append(exact("cpu_quota", "cpu.max", f"{self.quota} {PERIOD}"))
        if self.cpu_shares is not None:
            if version == 1:
                found.append(exact("cpu_shares", "cpu.shares", str(self.cpu_shares)))
            else:
                known = weights(self.cpu_shares)
                found.append(
                    Setting(
                        "cpu_shares", "cpu.weight", str(known[0]), lambda t: t in map(str, known)
                    )
                )
        return found

    def _cpuset(self, version: int) -> list[Setting]:
        if self.cpuset is None:
            return []
        wanted = cpus_of(self.cpuset)

        def same(found: str) -> bool:
            try:
                return cpus_of(found) == wanted
            except ValueError:  # an empty file, or none
                return False

        # The written value need not be in effect: version 2 accepts CPUs that the parent group lacks, and then uses
        # others (admin-guide/cgroup-v2, "cpuset.cpus.effective").
        force = "cpuset.effective_cpus" if version == 1 else "cpuset.cpus.effective"
        return [
            Setting("cpuset", "cpuset.cpus", self.cpuset, same),
            Setting("cpuset_in_force", force, self.cpuset, same, optional=True, written=False),
        ]

    def _pids(self, version: int) -> list[Setting]:
        return [] if self.pids is None else [exact("pids", "pids.max", str(self.pids))]

    def _memory(self, version: int) -> list[Setting]:
        if self.memory is None:
            return []
        text, pages = str(self.memory), str(self.memory // _PAGE * _PAGE)

        def same(found: str) -> bool:
            return found in (text, pages)

        if version == 1:
            return [
                Setting("memory", "memory.limit_in_bytes", text, same),
                # Memory and swap together: the kernel accounts for swap only if enabled at boot.
                Setting(
                    "memory_and_swap", "memory.memsw.limit_in_bytes", text, same, optional=True
                ),
            ]
        return [
            Setting("memory", "memory.max", text, same),
            Setting("swap", "memory.swap.max", "0", lambda found: found == "0", optional=True),
        ]

    def _io(self, version: int) -> list[Setting]:
        found = []
        for disk in self.disks:
            caps = {name: value for name in CAPS if (value := getattr(disk, name)) is not None}
            for name, value in caps.items():
                file, key, _ = CAPS[name]
                if version == 1:
                    line = f"{disk.number} {value}"
                    found.append(among_lines(f"disk_{name}", file, line, {line}))
                else:
                    line = f"{disk.number} {key}={value}"
                    found.append(
                        among_lines(f"disk_{name}", "io.max", line, {disk.number, f"{key}={value}"})
                    )
        return found


def weights(shares: int) -> list[int]:
    """The weights of version 2 that shares of version 1 may be converted to; the one that we write comes first.

    Ours keeps ratios (1024 is 100, the default of each). runc until 1.3 maps the ranges linearly; newer versions by a
    curve through both defaults (opencontainers/cgroups, ConvertCPUSharesToCgroupV2Value).
    """
    ours = min(10_000, max(1, round(shares * 100 / 1024)))
    linear = 1 + (shares - 2) * 9999 // 262_142
    log = math.log2(shares)
    curve = math.ceil(10 ** ((log * log + 125 * log) / 612 - 7 / 34))
    return [ours, linear, curve]


def cpus_of(text: str) -> set[int]:
    """The CPUs of a list in the kernel's format: ``0-2,4``.

    Raises:
        ValueError: it is not such a list, or empty.
    """
    found: set[int] = set()
    for part in text.strip().split(","):
        first, dash, last = part.partition("-")
        if not _NUMBER.fullmatch(first) or (dash and not _NUMBER.fullmatch(last)):
            raise ValueError("not a list of CPUs such as 0-2,4")
        several = range(int(first), int(last if dash else first) + 1)
        if not several:
            raise ValueError("not a list of CPUs such as 0-2,4")
        found.update(several)
    return found


def bytes_of(memory: int | str | None) -> int | None:
    """The bytes of a number or a text such as ``200 MiB``.

    Raises:
        QuantityError: the text is not a size.
    """
    if not isinstance(memory, str):
        return memory
    return round(amount("memory", memory, "byte", such_as="200 MiB"))


def names(limits: Limits) -> Sequence[str]:
    """The names of the requested settings, for messages."""
    return [
        setting.name
        for controller in limits.controllers
        for setting in limits.settings(controller, 1)
        if setting.written
    ]
