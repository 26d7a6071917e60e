"""Context switches and system calls per second.

For context switches, two processes on one processor pass a token back and forth through pipes, as in the ring of
lmbench's lat_ctx(8) with two processes of size 0. A switch includes the write and the read that cause it: lmbench
subtracts their time, which is not done here, since the difference of two measured times is noisier than either.

The system call is getppid, lmbench's "null" call (lat_syscall(8)): it does next to nothing, no library caches its
result, which may change, and no vDSO answers it without the kernel. It is made through syscall(2), and every result
is checked. The figure is the rate of calls; lmbench reports the time of one, its inverse.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

from pytest_vperf.workloads import own_program
from pytest_vperf.workloads.base import Reader
from pytest_vperf.workloads.own_program import TimedTool, rate

if TYPE_CHECKING:
    from pytest_vperf.quantity import Quantity
    from pytest_vperf.workloads.base import Output


@dataclass(frozen=True)
class SyscallsResult:
    """What a run measured.

    Attributes:
        implementation: ``vperf-syscalls 1.0``.
        rate: system calls, in operation/s.
    """

    implementation: str
    rate: Quantity


@dataclass(frozen=True)
class VperfSyscalls(own_program.TimedProgram):
    """The program of ours; see `TimedProgram` for its parameters."""

    tool: ClassVar[str] = "vperf-syscalls"
    longest: ClassVar[float] = 60

    def parse(self, output: Output) -> SyscallsResult:
        """Read what a run printed; see `Workload.parse`."""
        reader = Reader(self.tool, output)
        return SyscallsResult(own_program.implementation(reader), rate(reader, "calls"))


class Syscalls(TimedTool[SyscallsResult]):
    """The rate of system calls, for the fixture ``syscalls``."""

    workload = VperfSyscalls


@dataclass(frozen=True)
class SwitchesResult:
    """What a run measured.

    Attributes:
        implementation: ``vperf-switches 1.0``.
        rate: switches, in operation/s.
        counted: whether the kernel counted as many switches as the program (getrusage(2)); gVisor's kernel counts
            none.
    """

    implementation: str
    rate: Quantity
    counted: bool


@dataclass(frozen=True)
class VperfSwitches(own_program.TimedProgram):
    """The program of ours; see `TimedProgram` for its parameters."""

    tool: ClassVar[str] = "vperf-switches"
    longest: ClassVar[float] = 60

    def parse(self, output: Output) -> SwitchesResult:
        """Read what a run printed; see `Workload.parse`."""
        reader = Reader(self.tool, output)
        said = reader.need(r"^counted by the kernel: (yes|no)$", "word whether the kernel counted")
        return SwitchesResult(
            own_program.implementation(reader), rate(reader, "switches"), said[1] == "yes"
        )


class Switches(TimedTool[SwitchesResult]):
    """The rate of context switches between two processes that take turns, for the fixture ``switches``."""

    workload = VperfSwitches
