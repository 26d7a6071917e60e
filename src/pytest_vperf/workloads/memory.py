"""The memory of a target by its own account, of a process by the host's, and that used up by a machine's start.

Of ``free``, the meaning of *used* has changed, so a result names the version that printed it:

- procps until 3.3.9 and old BusyBox: used is all that is not free, including caches; a second line,
  ``-/+ buffers/cache:`` (BusyBox: ``-/+ buffers:``), has used and free without and with them;
- procps 3.3.10 to 3.3.17, and BusyBox: total minus free, buffers and caches (the second line is gone);
- procps 4: total minus available (procps-ng, NEWS of 4.0.0 and free(1)).

A figure is printed in bytes, KiB or MiB as requested by ``-b``, ``-k`` or ``-m``; other units are rejected.

The memory of a process is VmRSS and VmSize of proc(5), and Pss of its smaps_rollup. The kernel counts in "kB" of 1024
bytes; here it is MiB of 2^20, which is meant by pages that divide those kB by 1024 and write MB.

The memory that a machine has lost to its kernel, and to what else runs, just after its start:

    taken = memory given to the machine - MemAvailable

MemTotal is not what the machine was given: it lacks what the firmware keeps and what the kernel takes before it
counts (its code and data, a description of every page, the reserve for a crash kernel), which differs from kernel to
kernel. Nor is MemFree what is left: pages of files can be dropped at no cost. MemAvailable is the kernel's
estimate of what new programs can have without swapping (proc(5); since Linux 3.14).

So the figure is what no workload can have: the memory of the kernel, its modules, the agent or init, and the idle
process of a container. With the same image and the same memory given, a difference is due to the kernel.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar, Literal

from pytest_vperf.quantity import Quantity, amount
from pytest_vperf.targets.base import TargetError, Unavailable
from pytest_vperf.workloads.base import WORD, Output, ParseError, Reader
from pytest_vperf.workloads.bench import ENVIRONMENT
from pytest_vperf.workloads.processors import coreutils_version

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    import psutil

    from pytest_vperf.targets.base import Target
    from pytest_vperf.workloads.bench import Bench


@dataclass(frozen=True)
class ProcessMemory:
    """The current memory of a process.

    Attributes:
        rss: resident pages (VmRSS), including shared ones, in MiB.
        size: address space (VmSize), in MiB.
    """

    rss: Quantity
    size: Quantity


class ProcMem:
    """The memory of a host's processes, for the fixture ``procmem``."""

    def of(self, process: int, *, on: Target | None = None) -> ProcessMemory:
        """The memory of one process, e.g. of a machine's QEMU.

        Args:
            process: its ID.
            on: the host that it runs on, if that may be another machine: the fixture ``host``.

        Raises:
            TargetError: there is no such process, or it is a kernel thread or a zombie.
            Unavailable: this user may not read it.
        """
        if on is not None:
            text = _read(on, f"/proc/{process}/status", process)
            return ProcessMemory(*(_line(text, name, process) for name in ("VmRSS", "VmSize")))
        # In whole pages, and a process that does nothing keeps its own: hence discrete.
        memory = _of(process, lambda each: each.memory_info())
        if memory.vms == 0:
            raise _none(process)
        return ProcessMemory(
            Quantity(memory.rss / 2**20, "MiB", direction="lower", discrete=True),
            Quantity(memory.vms / 2**20, "MiB", direction="lower", discrete=True),
        )

    def pss(self, process: int, *, on: Target | None = None) -> Quantity:
        """The proportional set size of one process, in MiB: a page shared by n processes counts as 1/n.

        Those of all machines add up to their use of the host; only the owner of a process and root may read it.

        Raises:
            TargetError: as for `of`.
            Unavailable: likewise.
        """
        if on is not None:
            return _line(_read(on, f"/proc/{process}/smaps_rollup", process), "Pss", process)
        size = int(_of(process, lambda each: each.memory_full_info().pss))
        if size == 0:
            raise _none(process)
        return Quantity(size / 2**20, "MiB", direction="lower", discrete=True)


def _of(process: int, ask: Callable[[psutil.Process], Any]) -> Any:
    import psutil

    try:
        return ask(psutil.Process(process))
    except psutil.NoSuchProcess:
        raise TargetError(f"there is no process {process}") from None
    except psutil.AccessDenied:
        raise Unavailable(
            f"the memory of process {process} cannot be read: it is another user's",
            remedy="run as that user, or as root",
        ) from None


def _read(host: Target, path: str, process: int) -> str:
    done = host.run(["cat", path], check=False)
    if done.returncode:
        words = done.stderr.decode("utf-8", "replace").strip()
        raise TargetError(f"the memory of process {process} cannot be read: {words}")
    return done.text


def _line(text: str, name: str, process: int) -> Quantity:
    """The figure of a line ``NAME: 123 kB``, which only a process with memory of its own has."""
    found = re.search(rf"^{name}:\s+([0-9]{{1,15}}) kB$", text, re.MULTILINE)
    if found is None or not int(found[1]):
        raise _none(process)
    return Quantity(int(found[1]) / 1024, "MiB", direction="lower", discrete=True)


def _none(process: int) -> TargetError:
    return TargetError(
        f"process {process} has no memory of its own: a kernel thread, or one that has ended"
    )


_UNITS = {"b": "byte", "k": "KiB", "m": "MiB"}


def _size(number: int, unit: str, direction: Literal["lower", "higher", ""] = "") -> Quantity:
    """A part of a kernel's memory, in whole pages; there may be none of it, as of buffers."""
    return Quantity(number, unit, direction=direction, signed=True, discrete=True)


@dataclass(frozen=True)
class FreeResult:
    """The memory reported by ``free``, without swap.

    Attributes:
        total: managed by the kernel.
        used: as this version defines it; see the module.
        free: unused.
        available: to new programs; ``None`` before procps 3.3.10.
        used_without_caches: from the line ``-/+ buffers/cache:``; ``None`` if there is no such line.
    """

    total: Quantity
    used: Quantity
    free: Quantity
    available: Quantity | None
    used_without_caches: Quantity | None

    @property
    def in_use(self) -> Quantity:
        """Total minus free, including caches: what every version until procps 3.3.9 called used."""
        taken = self.total.value - self.free.to(self.total.unit).value
        return Quantity(taken, self.total.unit, direction="lower", discrete=True)


@dataclass(frozen=True)
class Free:
    """``free``.

    Attributes:
        unit: ``b``, ``k`` or ``m``.
    """

    tool: ClassVar[str] = "free"
    version_argv: ClassVar[Sequence[str]] = ("-V",)
    times: ClassVar[bool] = False

    unit: Literal["b", "k", "m"] = "b"

    def __post_init__(self) -> None:
        if self.unit not in _UNITS:
            raise ValueError(f"unit is {self.unit!r}, not b, k or m")

    def argv(self, version: str) -> tuple[str, ...]:
        """See `Workload.argv`."""
        return (f"-{self.unit}",)

    @property
    def timeout(self) -> float:
        """See `Workload.timeout`."""
        return 60.0

    def parse(self, output: Output) -> FreeResult:
        """Read what it printed; see `Workload.parse`."""
        reader = Reader(self.tool, output)
        heading = reader.need(
            r"^[ \t]+total[ \t]+used[ \t]+free[ \t]+shared((?:[ \t]+[a-z/]+)*)[ \t]*$", "heading"
        )
        columns = ["total", "used", "free", "shared", *heading[1].split()]
        figures = reader.need(r"^[ \t]*Mem:((?:[ \t]+\S+)+)[ \t]*$", "line of memory")[1].split()
        if len(figures) != len(columns):
            raise reader.error(f"there are {len(figures)} figures below {len(columns)} names")
        sizes = {
            name: reader.whole(text, f"{name} memory", positive=name == "total")
            for name, text in zip(columns, figures, strict=True)
        }
        for name in ("used", "free", "available"):
            if sizes.get(name, 0) > sizes["total"]:
                raise reader.error(f"{name} memory is more than all of it")
        second = reader.find(
            rf"^-/\+ buffers(?:/cache)?:[ \t]+({WORD})[ \t]+({WORD})[ \t]*$", "second line"
        )
        # The second line may only be missing if available memory is printed; else the output was cut off. BusyBox
        # until 1.17 has a line of totals instead.
        totals = reader.find(r"^[ \t]*Total:(?:[ \t]+[0-9]+){3}[ \t]*$", "line of totals")
        cut = "available" not in columns and "buff/cache" not in columns and totals is None
        if cut and second is None:
            raise reader.error("there is neither available memory nor the line -/+ buffers/cache")
        without = None
        if second:
            without = reader.whole(second[1], "memory used without caches")
            if without > sizes["used"]:
                raise reader.error("memory used without caches is more than with them")
        unit = _UNITS[self.unit]
        available = sizes.get("available")
        return FreeResult(
            Quantity(sizes["total"], unit, discrete=True),
            _size(sizes["used"], unit, "lower"),
            _size(sizes["free"], unit, "higher"),
            None if available is None else _size(available, unit, "higher"),
            None if without is None else _size(without, unit, "lower"),
        )

    @classmethod
    def version_of(cls, output: Output) -> str:
        """See `Workload.version_of`."""
        text = output.stdout + output.stderr
        match = re.search(r"procps(?:-ng)?(?: version)? ([0-9][0-9.]*)", text, re.ASCII)
        if match:
            return match[1]
        match = re.search(r"BusyBox v([0-9][0-9.]*)", text, re.ASCII)
        if match is None:
            raise ParseError(cls.tool, "there is no version in what it printed", output)
        return f"busybox {match[1]}"


@dataclass(frozen=True)
class MeminfoResult:
    """``/proc/meminfo`` in part, in KiB, as the kernel counts.

    Attributes:
        total: MemTotal.
        free: MemFree.
        available: MemAvailable; ``None`` before Linux 3.14.
        buffers: Buffers.
        cached: Cached.
    """

    total: Quantity
    free: Quantity
    available: Quantity | None
    buffers: Quantity
    cached: Quantity


@dataclass(frozen=True)
class Meminfo:
    """``cat /proc/meminfo``: proc(5)."""

    tool: ClassVar[str] = "cat"
    version_argv: ClassVar[Sequence[str]] = ("--version",)
    times: ClassVar[bool] = False

    def argv(self, version: str) -> tuple[str, ...]:
        """See `Workload.argv`."""
        return ("/proc/meminfo",)

    @property
    def timeout(self) -> float:
        """See `Workload.timeout`."""
        return 60.0

    def parse(self, output: Output) -> MeminfoResult:
        """Read the file; see `Workload.parse`."""
        reader = Reader(self.tool, output)

        def size(name: str, match: re.Match[str]) -> int:
            return reader.whole(match[1], name, positive=name == "MemTotal")

        def line(name: str) -> str:
            return rf"^{name}:[ \t]+({WORD}) kB$"

        names = ("MemTotal", "MemFree", "Buffers", "Cached")
        total, free, buffers, cached = (size(name, reader.need(line(name), name)) for name in names)
        available = reader.find(line("MemAvailable"), "MemAvailable")
        # A kernel without it does not print the name either.
        if available is None and "MemAvailable" in reader.text:
            raise reader.error("MemAvailable is there, and cannot be read")
        if max(free, buffers, cached) > total:
            raise reader.error("a part of memory is more than all of it")
        return MeminfoResult(
            Quantity(total, "KiB", discrete=True),
            _size(free, "KiB", "higher"),
            _size(size("MemAvailable", available), "KiB", "higher") if available else None,
            _size(buffers, "KiB"),
            _size(cached, "KiB"),
        )

    @classmethod
    def version_of(cls, output: Output) -> str:
        """See `Workload.version_of`."""
        return coreutils_version(cls.tool, output)


class GuestMem:
    """The memory of a target by its own account, for the fixture ``guestmem``.

    Args:
        bench: runs the tools.
    """

    def __init__(self, bench: Bench) -> None:
        self._bench = bench

    def free(self, target: Target, *, unit: Literal["b", "k", "m"] = "b") -> FreeResult:
        """Run ``free``; see `Bench.run` for the errors."""
        return self._bench.run(target, Free(unit))

    def meminfo(self, target: Target) -> MeminfoResult:
        """Read ``/proc/meminfo``; see `Bench.run` for the errors."""
        return self._bench.run(target, Meminfo())


class BootMem:
    """The memory that a machine's start has used up, for the fixture ``bootmem``.

    Args:
        bench: notes the tool.
    """

    def __init__(self, bench: Bench) -> None:
        self._bench = bench

    def taken(self, machine: Target, *, of: str) -> Quantity:
        """The part of a machine's memory that no workload can use, in KiB; lower is better.

        It consists of ``reserved``, which is not even in MemTotal, and ``in use``.

        Args:
            machine: just started.
            of: the memory that it was given, e.g. ``512 MiB``.

        Raises:
            Unavailable: its kernel has no MemAvailable.
            ParseError: it reports more than it was given, or ``/proc/meminfo`` is invalid.
        """
        workload = Meminfo()
        program = machine.program(workload.tool)
        # Nothing is timed in the machine, so its clock need not be checked, as Bench.run would.
        version = self._bench.version(machine, program, workload)
        completed = machine.run(
            [*program.argv, *workload.argv(version)], env=ENVIRONMENT, timeout=workload.timeout
        )
        output = Output.of(completed, version)
        memory = workload.parse(output)
        if memory.available is None:
            raise Unavailable(
                "its kernel does not say how much memory is available (Linux 3.14 and newer do)",
                target=machine.name,
            )
        given = amount("of", of, "KiB", such_as="512 MiB")
        total, available = memory.total.value, memory.available.value
        if not available <= total <= given:
            raise ParseError(
                workload.tool,
                f"MemTotal {total:g} kB and MemAvailable {available:g} kB are not of {of}",
                output,
            )
        parts = (("reserved", given - total), ("in use", total - available))
        return Quantity(given - available, "KiB", parts, direction="lower", discrete=True)
