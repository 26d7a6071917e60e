"""The memory of a target as it sees it itself: what ``free`` says, and ``/proc/meminfo``.

What *used* means has changed, so a result says what was printed, and by which version:

- procps until 3.3.9 and old BusyBox: used is everything that is not free, caches included; a second line,
  ``-/+ buffers/cache:`` (BusyBox: ``-/+ buffers:``), has used and free without and with them;
- procps 3.3.10 to 3.3.17, and BusyBox: total minus free, buffers and caches (the second line is gone);
- procps 4: total minus available (procps-ng, NEWS of 4.0.0 and free(1)).

A figure is printed in bytes, KiB or MiB as ``-b``, ``-k`` or ``-m`` ask; other units are refused.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar, Literal

from pytest_vperf.quantity import Quantity
from pytest_vperf.workloads.base import Output, ParseError
from pytest_vperf.workloads.figures import TOKEN, Reader
from pytest_vperf.workloads.threadcpu import coreutils_version

if TYPE_CHECKING:
    from collections.abc import Sequence

    from pytest_vperf.targets.base import Target
    from pytest_vperf.workloads.bench import Bench

_UNITS = {"b": "byte", "k": "KiB", "m": "MiB"}


@dataclass(frozen=True)
class FreeResult:
    """What ``free`` printed of memory; swap is left aside.

    Attributes:
        total: what the kernel manages.
        used: as this version means it; see the module.
        free: what is used for nothing.
        available: what new programs can have; ``None`` before procps 3.3.10.
        used_without_caches: from the line ``-/+ buffers/cache:``; ``None`` where there is no such line.
    """

    total: Quantity
    used: Quantity
    free: Quantity
    available: Quantity | None
    used_without_caches: Quantity | None

    @property
    def in_use(self) -> Quantity:
        """Total minus free, caches included: what every version until procps 3.3.9 called used."""
        taken = self.total.value - self.free.to(self.total.unit).value
        return Quantity(taken, self.total.unit, better="lower")


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
            rf"^-/\+ buffers(?:/cache)?:[ \t]+({TOKEN})[ \t]+({TOKEN})[ \t]*$", "second line"
        )
        # Only where available memory is printed is the second line gone; else the output was cut. BusyBox until 1.17
        # has a line of totals instead.
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
            Quantity(sizes["total"], unit),
            Quantity(sizes["used"], unit, better="lower"),
            Quantity(sizes["free"], unit, better="higher"),
            None if available is None else Quantity(available, unit, better="higher"),
            None if without is None else Quantity(without, unit, better="lower"),
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
            return rf"^{name}:[ \t]+({TOKEN}) kB$"

        names = ("MemTotal", "MemFree", "Buffers", "Cached")
        total, free, buffers, cached = (size(name, reader.need(line(name), name)) for name in names)
        available = reader.find(line("MemAvailable"), "MemAvailable")
        # A kernel that does not know it does not print the name either.
        if available is None and "MemAvailable" in reader.text:
            raise reader.error("MemAvailable is there, and cannot be read")
        if max(free, buffers, cached) > total:
            raise reader.error("a part of memory is more than all of it")
        return MeminfoResult(
            Quantity(total, "KiB"),
            Quantity(free, "KiB", better="higher"),
            Quantity(size("MemAvailable", available), "KiB", better="higher")
            if available
            else None,
            Quantity(buffers, "KiB"),
            Quantity(cached, "KiB"),
        )

    @classmethod
    def version_of(cls, output: Output) -> str:
        """See `Workload.version_of`."""
        return coreutils_version(cls.tool, output)


class GuestMem:
    """The memory of a target by its own account, as a test asks for it.

    Args:
        bench: what runs the tools.
    """

    def __init__(self, bench: Bench) -> None:
        self._bench = bench

    def free(self, target: Target, *, unit: Literal["b", "k", "m"] = "b") -> FreeResult:
        """What ``free`` says; see `Bench.run` for the errors."""
        return self._bench.run(target, Free(unit))

    def meminfo(self, target: Target) -> MeminfoResult:
        """What ``/proc/meminfo`` says; see `Bench.run` for the errors."""
        return self._bench.run(target, Meminfo())
