"""Dhrystone: integers, strings, calls and assignments, in the mix that R.

P. Weicker found in programs. CACM 27(10), 1984; version 2.1 in SIGPLAN Notices 23(8), 1988. DMIPS are Dhrystones per
second divided by the 1757 of
a VAX 11/780, which was called a machine of one MIPS (e.g. Texas Instruments, SPRAC21A, "Dhrystone"; netlib's program
prints the same as "VAX MIPS rating").

The figure depends much on compiler and C library, so a result names the build of the program, and figures of two
builds are not comparable.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from pytest_vperf.quantity import Quantity
from pytest_vperf.workloads import own_program
from pytest_vperf.workloads.base import Output, Reader
from pytest_vperf.workloads.own_program import TimedTool

#: Dhrystones per second of one DMIPS.
VAX = 1757.0


@dataclass(frozen=True)
class DhrystoneResult:
    """The result of a run.

    Attributes:
        implementation: the program with its version, such as ``vperf-dhrystone 1.1``.
        dhrystones_per_second: passes of the loop per second.
        dmips: the same divided by 1757.
    """

    implementation: str
    dhrystones_per_second: Quantity
    dmips: Quantity


def _result(reader: Reader, implementation: str, rate: float) -> DhrystoneResult:
    reader.checked(rate, "Dhrystones per second", positive=True)
    return DhrystoneResult(
        implementation,
        Quantity(rate, "dhrystone/s", direction="higher"),
        Quantity(rate / VAX, "DMIPS", direction="higher"),
    )


@dataclass(frozen=True)
class VperfDhrystone(own_program.TimedProgram):
    """Our program; see `TimedProgram` for its parameters."""

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


class Dhrystone(TimedTool[DhrystoneResult]):
    """Dhrystone, for the fixture ``dhrystone``."""

    workload = VperfDhrystone
