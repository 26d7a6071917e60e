"""Whetstone: floating point arithmetic and functions, in the mix that H. J. Curnow and B. A. Wichmann published.

The Computer Journal 19(1), 1976. *MWIPS* are million instructions of the Whetstone interpreter a second, the figure
of the paper, which UnixBench counts and netlib's program calls "MIPS". *MFLOPS* are floating point operations: the
geometric mean of the three modules that are about them, as in R. Longbottom's summaries (UnixBench's whets.c:
"MFLOPS = Geometric Mean of three MFLOPS loops"). The two differ by a factor of three or more: a page that says
"MFLOPS" may mean either.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar, Literal

from pytest_vperf.quantity import Quantity
from pytest_vperf.workloads import own_program
from pytest_vperf.workloads.base import TOKEN, Output, ParseError, Reader, check_whole
from pytest_vperf.workloads.dhrystone import unixbench_version

if TYPE_CHECKING:
    from collections.abc import Sequence

    from pytest_vperf.targets.base import Target
    from pytest_vperf.workloads.bench import Bench

#: The modules of our program that count floating point operations, by the names it prints.
_MODULES = (
    "module 2, array elements",
    "module 3, array as a parameter",
    "module 8, procedure calls",
)

#: What netlib's program and its later editions print before "IPS", in millions.
_MILLIONS = {"K": 1e-3, "M": 1.0, "G": 1e3}


@dataclass(frozen=True)
class WhetstoneResult:
    """What a run measured.

    Attributes:
        implementation: ``vperf-whetstone 1.1``, ``unixbench`` or ``netlib``.
        mwips: million Whetstone instructions a second.
        mflops: geometric mean of the three floating point modules; ``None`` from netlib's program, which does not
            time its modules.
    """

    implementation: str
    mwips: Quantity
    mflops: Quantity | None


def _result(
    reader: Reader, implementation: str, mwips: float, modules: Sequence[float]
) -> WhetstoneResult:
    mflops = None
    if modules:
        mean = 1.0
        for rate in modules:
            mean *= rate ** (1 / len(modules))
        reader.checked(mean, "MFLOPS", positive=True)
        mflops = Quantity(mean, "MFLOPS", better="higher")
    return WhetstoneResult(implementation, Quantity(mwips, "MWIPS", better="higher"), mflops)


@dataclass(frozen=True)
class VperfWhetstone(own_program.TimedProgram):
    """The program of ours; see `TimedProgram` for its parameters."""

    tool: ClassVar[str] = "vperf-whetstone"
    longest: ClassVar[float] = 3600

    def parse(self, output: Output) -> WhetstoneResult:
        """Read what a run printed; see `Workload.parse`."""
        reader = Reader(self.tool, output)
        name = own_program.implementation(reader)
        passes = own_program.figure(reader, "passes")
        seconds = own_program.figure(reader, "seconds")
        mwips = own_program.figure(reader, "million Whetstone instructions per second")
        # A pass is a million instructions; printed with three decimals, and seconds with six.
        if abs(passes / seconds - mwips) > 0.001 + mwips * 1e-6 / seconds:
            raise reader.error(f"{passes:g} passes in {seconds:g} s are not {mwips:g} MWIPS")
        rates = [
            own_program.figure(reader, f"million floating point operations per second of {module}")
            for module in _MODULES
        ]
        return _result(reader, name, mwips, rates)


@dataclass(frozen=True)
class UnixBenchWhetstone:
    """UnixBench's ``whetstone-double``: a table on standard output, ``COUNT|n|0|MWIPS`` on standard error.

    It runs about 10 s, whatever it is told (``duration`` in whets.c).
    """

    tool: ClassVar[str] = "whetstone-double"
    version_argv: ClassVar[Sequence[str]] = ()

    def argv(self, version: str) -> tuple[str, ...]:
        """See `Workload.argv`."""
        return ()

    @property
    def timeout(self) -> float:
        """See `Workload.timeout`."""
        return 240.0

    def parse(self, output: Output) -> WhetstoneResult:
        """Read what a run printed; see `Workload.parse`."""
        reader = Reader(self.tool, Output(output.stderr + "\n" + output.stdout, "", output.version))
        if reader.find(r"^Wrong answer", "complaint about the answer"):
            raise reader.error("it found a wrong answer itself")
        match = reader.need(rf"^COUNT\|({TOKEN})\|0\|MWIPS$", "COUNT of MWIPS")
        rates = [
            reader.number(
                reader.need(
                    rf"^N{loop} floating point[ \t]+\S+[ \t]+({TOKEN})[ \t]+\S+[ \t]*$",
                    f"line of loop N{loop}",
                )[1],
                f"MFLOPS of loop N{loop}",
                positive=True,
            )
            for loop in (1, 2, 6)
        ]
        mwips = reader.number(match[1], "MWIPS", positive=True)
        return _result(reader, "unixbench", mwips, rates)

    @classmethod
    def version_of(cls, output: Output) -> str:
        """Without arguments it runs, and its heading says what it is."""
        if "C/C++ Whetstone Benchmark" not in output.stdout:
            return unixbench_version(cls.tool, output)
        return "unixbench"


@dataclass(frozen=True)
class NetlibWhetstone:
    """netlib's ``whetdc``, which prints "C Converted Double Precision Whetstones: 5000.0 MIPS".

    Its clock has whole seconds, so a run has to be long.

    Attributes:
        loops: each is 100 000 Whetstone instructions.
    """

    tool: ClassVar[str] = "whetdc"
    version_argv: ClassVar[Sequence[str]] = ("1",)

    loops: int = 1_000_000

    def __post_init__(self) -> None:
        check_whole("loops", self.loops)

    def argv(self, version: str) -> tuple[str, ...]:
        """See `Workload.argv`."""
        return (str(self.loops),)

    @property
    def timeout(self) -> float:
        """See `Workload.timeout`: at least 20 MWIPS."""
        return 60.0 + self.loops / 200

    def parse(self, output: Output) -> WhetstoneResult:
        """Read what a run printed; see `Workload.parse`."""
        reader = Reader(self.tool, output)
        if reader.find(r"^Insufficient duration", "complaint about the duration"):
            raise reader.error("the run was too short for its clock of whole seconds")
        match = reader.need(
            rf"^C Converted [Dd]ouble Precision Whetstones:[ \t]*({TOKEN}) ([KMG])W?IPS[ \t]*$",
            "number of Whetstones",
        )
        figure = reader.number(match[1], "Whetstones", positive=True)
        # G is of editions for faster machines, as the W for Whetstone.
        mwips = reader.checked(figure * _MILLIONS[match[2]], "MWIPS", positive=True)
        return _result(reader, "netlib", mwips, ())

    @classmethod
    def version_of(cls, output: Output) -> str:
        """It has no version; what it says of its duration tells that it is there."""
        if "Insufficient duration" not in output.stdout and "C Converted" not in output.stdout:
            raise ParseError(cls.tool, "this is not netlib's program", output)
        return "netlib"


class Whetstone:
    """Whetstone, as a test asks for it.

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
        implementation: Literal["vperf", "unixbench", "netlib"] = "vperf",
        loops: int = 1_000_000,
    ) -> WhetstoneResult:
        """Run it; see `Bench.run` for the errors.

        Args:
            target: where.
            time: how long our program runs, in s.
            warmup: what our program runs before, in s, which does not count; see `TimedProgram`.
            implementation: our program, or a classic one where the image has it.
            loops: of netlib's program.
        """
        if implementation == "vperf":
            return self._bench.run(target, VperfWhetstone(time, warmup))
        if implementation not in ("unixbench", "netlib"):
            raise ValueError(
                f"implementation is {implementation!r}, not vperf, unixbench or netlib"
            )
        if warmup:
            raise ValueError(f"warmup is {warmup:g}: only our program has one")
        if implementation == "unixbench":
            return self._bench.run(target, UnixBenchWhetstone())
        return self._bench.run(target, NetlibWhetstone(loops))
