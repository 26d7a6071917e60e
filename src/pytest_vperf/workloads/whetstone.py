"""Whetstone: floating point arithmetic and functions, in the mix that H. J. Curnow and B. A. Wichmann published.

The Computer Journal 19(1), 1976. *MWIPS* are million instructions of the Whetstone interpreter per second, the
paper's figure, which UnixBench reports and netlib's program calls "MIPS". *MFLOPS* are floating point operations: the
geometric mean of the three modules that measure them, as in R. Longbottom's summaries (UnixBench's whets.c: "MFLOPS =
Geometric Mean of three MFLOPS loops"). The two differ by a factor of three or more: a page with "MFLOPS" may mean
either.
"""

from __future__ import annotations

import statistics
from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

from pytest_vperf.quantity import Quantity
from pytest_vperf.workloads import own_program
from pytest_vperf.workloads.base import Output, Reader
from pytest_vperf.workloads.own_program import TimedTool

if TYPE_CHECKING:
    from collections.abc import Sequence


#: The modules of our program that count floating point operations, by the names it prints.
_MODULES = (
    "module 2, array elements",
    "module 3, array as a parameter",
    "module 8, procedure calls",
)


@dataclass(frozen=True)
class WhetstoneResult:
    """The result of a run.

    Attributes:
        implementation: the program with its version, such as ``vperf-whetstone 1.1``.
        mwips: million Whetstone instructions per second.
        mflops: geometric mean of the three floating point modules.
    """

    implementation: str
    mwips: Quantity
    mflops: Quantity


def _result(
    reader: Reader, implementation: str, mwips: float, modules: Sequence[float]
) -> WhetstoneResult:
    mean = statistics.geometric_mean(modules)
    reader.checked(mean, "MFLOPS", positive=True)
    mflops = Quantity(mean, "MFLOPS", direction="higher")
    return WhetstoneResult(implementation, Quantity(mwips, "MWIPS", direction="higher"), mflops)


@dataclass(frozen=True)
class VperfWhetstone(own_program.TimedProgram):
    """Our program; see `TimedProgram` for its parameters."""

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


class Whetstone(TimedTool[WhetstoneResult]):
    """Whetstone, for the fixture ``whetstone``."""

    workload = VperfWhetstone
