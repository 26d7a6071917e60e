"""Dhrystone: integers, texts, calls and assignments, in the mix that R. P. Weicker found in programs.

CACM 27(10), 1984; version 2.1 in SIGPLAN Notices 23(8), 1988. DMIPS are Dhrystones per second divided by the 1757 of
a VAX 11/780, which was called a machine of one MIPS (e.g. Texas Instruments, SPRAC21A, "Dhrystone"; netlib's program
prints the same as "VAX MIPS rating").

Compilers and C libraries decide much of the figure, so a result says which implementation it is from, and figures of
two implementations are not comparable.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar, Literal

from pytest_vperf.quantity import Quantity
from pytest_vperf.workloads import own_program
from pytest_vperf.workloads.base import TOKEN, Output, ParseError, Reader, Unsupported

if TYPE_CHECKING:
    from collections.abc import Sequence

    from pytest_vperf.targets.base import Target
    from pytest_vperf.workloads.bench import Bench

#: Dhrystones per second of one DMIPS.
VAX = 1757.0

#: What netlib's program prints of a variable that has one right value: a number, a letter or a text.
_CHECKED = (
    r"^[ \t]*([\w\[\]]+):[ \t]+(\S.*?)[ \t]*\n"
    r"[ \t]*should be:[ \t]+(?!Number_Of_Runs|\(implementation-dependent)(\S.*?)[ \t]*$"
)


@dataclass(frozen=True)
class DhrystoneResult:
    """What a run measured.

    Attributes:
        implementation: ``vperf-dhrystone 1.1``, ``unixbench`` or ``netlib 2.1``.
        dhrystones_per_second: turns of the loop in a second.
        dmips: the same by 1757.
    """

    implementation: str
    dhrystones_per_second: Quantity
    dmips: Quantity


def _result(reader: Reader, implementation: str, rate: float) -> DhrystoneResult:
    reader.checked(rate, "Dhrystones per second", positive=True)
    return DhrystoneResult(
        implementation,
        Quantity(rate, "dhrystone/s", better="higher"),
        Quantity(rate / VAX, "DMIPS", better="higher"),
    )


@dataclass(frozen=True)
class VperfDhrystone(own_program.TimedProgram):
    """The program of ours; see `TimedProgram` for its parameters."""

    tool: ClassVar[str] = "vperf-dhrystone"
    longest: ClassVar[float] = 60

    def parse(self, output: Output) -> DhrystoneResult:
        """Read what a run printed; see `Workload.parse`."""
        reader = Reader(self.tool, output)
        name = own_program.implementation(reader)
        runs = own_program.figure(reader, "runs")
        seconds = own_program.figure(reader, "seconds")
        rate = own_program.figure(reader, "dhrystones per second")
        # Printed with one decimal, and seconds with six.
        if abs(runs / seconds - rate) > 0.06 + rate * 1e-6 / seconds:
            raise reader.error(f"{runs:g} runs in {seconds:g} s are not {rate:g} a second")
        return _result(reader, name, rate)


@dataclass(frozen=True)
class UnixBenchDhrystone:
    """UnixBench's ``dhry2reg``: it prints ``COUNT|n|1|lps`` on standard error, n turns in its whole time.

    Attributes:
        time: how long to run, in whole seconds.
    """

    tool: ClassVar[str] = "dhry2reg"
    version_argv: ClassVar[Sequence[str]] = ()

    time: int = 10

    def __post_init__(self) -> None:
        if isinstance(self.time, bool) or not isinstance(self.time, int) or self.time < 1:
            raise ValueError(f"time is {self.time!r}, not a whole number of seconds")

    def argv(self, version: str) -> tuple[str, ...]:
        """See `Workload.argv`."""
        return (str(self.time),)

    @property
    def timeout(self) -> float:
        """See `Workload.timeout`."""
        return 60.0 + 4 * self.time

    def parse(self, output: Output) -> DhrystoneResult:
        """Read what a run printed; see `Workload.parse`."""
        reader = Reader(self.tool, Output(output.stderr + output.stdout, "", output.version))
        match = reader.need(rf"^COUNT\|({TOKEN})\|1\|lps$", "COUNT of loops")
        count = reader.whole(match[1], "the COUNT of loops", positive=True)
        # UnixBench 4 says how long it ran.
        lasted = reader.find(rf"^TIME\|({TOKEN})$", "TIME")
        if lasted:
            seconds = reader.number(lasted[1], "the TIME", positive=True)
            if abs(seconds - self.time) > 0.1 * self.time:
                raise reader.error(f"it ran {seconds:g} s, not {self.time}")
        return _result(reader, "unixbench", count / self.time)

    @classmethod
    def version_of(cls, output: Output) -> str:
        """It has no version; its usage message says that it is there."""
        return unixbench_version(cls.tool, output)


@dataclass(frozen=True)
class NetlibDhrystone:
    """What netlib's ``dhry`` 2.1 prints; it cannot be run from here, since it asks for the number of runs."""

    tool: ClassVar[str] = "dhry"
    version_argv: ClassVar[Sequence[str]] = ()

    def argv(self, version: str) -> tuple[str, ...]:
        """See `Workload.argv`."""
        raise Unsupported("it asks for the number of runs on its standard input")

    @property
    def timeout(self) -> float:
        """See `Workload.timeout`."""
        return 60.0

    def parse(self, output: Output) -> DhrystoneResult:
        """Read what a run printed; see `Workload.parse`."""
        reader = Reader(self.tool, output)
        if reader.find(r"^Measured time too small to obtain meaningful results", "apology"):
            raise reader.error("the run was too short to be measured")
        # R. Longbottom's edition says "C or C++", and 2.2 "Version C, Version 2.2".
        version = reader.need(
            r"^Dhrystone Benchmark, Version (?:C, Version )?([0-9]\S*)(?: \(Language: C(?: or C\+\+)?\))?[ \t]*$",
            "version",
        )
        for name, found, right in re.findall(_CHECKED, reader.text, re.MULTILINE | re.ASCII):
            if found != right:
                raise reader.error(f"its {name} is {found}, and should be {right}")
        # R. Longbottom's edition compares itself.
        wrong = re.search(r"(\S+):[ \t]+WRONG\b", reader.text)
        if wrong:
            raise reader.error(f"its {wrong[1]} is wrong, as it says itself")
        match = reader.need(
            rf"^Dhrystones per Second:[ \t]*({TOKEN})[ \t]*$", "number of Dhrystones per second"
        )
        rate = reader.number(match[1], "Dhrystones per second", positive=True)
        rating = reader.find(r"^VAX[ ]+MIPS rating[ ]*[=:][ ]*(\S+)[ \t]*$", "VAX MIPS rating")
        if rating:
            mips = reader.number(rating[1], "the VAX MIPS rating", positive=True)
            # Both are rounded, the rate to 0.1 and the rating to three decimals or less.
            if abs(rate / VAX - mips) > 0.06 + 0.001 * mips:
                raise reader.error(f"its VAX MIPS rating is not its rate by {VAX:g}")
        return _result(reader, f"netlib {version[1]}", rate)

    @classmethod
    def version_of(cls, output: Output) -> str:
        """It has none that could be asked for."""
        raise ParseError(cls.tool, "it cannot be asked for its version", output)


def unixbench_version(tool: str, output: Output) -> str:
    """UnixBench's programs say how they are used where no time is named.

    Raises:
        ParseError: this one does not.
    """
    if not re.search(r"^Usage: \S+ duration", output.stderr + output.stdout, re.MULTILINE):
        raise ParseError(tool, "this is not UnixBench's program", output)
    return "unixbench"


class Dhrystone:
    """Dhrystone, as a test asks for it.

    Args:
        bench: what runs it.
    """

    def __init__(self, bench: Bench) -> None:
        self._bench = bench

    def run(
        self,
        target: Target,
        *,
        time: float = 2.0,
        warmup: float = 0.0,
        implementation: Literal["vperf", "unixbench"] = "vperf",
    ) -> DhrystoneResult:
        """Run it for ``time`` seconds; see `Bench.run` for the errors.

        Args:
            target: where.
            time: in s; whole seconds for UnixBench's.
            warmup: what our program runs before, in s, which does not count; see `TimedProgram`.
            implementation: our program, or UnixBench's where the image has it.
        """
        if implementation == "vperf":
            return self._bench.run(target, VperfDhrystone(time, warmup))
        if implementation != "unixbench":
            raise ValueError(f"implementation is {implementation!r}, not vperf or unixbench")
        if warmup:
            raise ValueError(f"warmup is {warmup:g}: UnixBench's program has none")
        if time != int(time):
            raise ValueError(f"time is {time!r}, not a whole number of seconds")
        return self._bench.run(target, UnixBenchDhrystone(int(time)))
