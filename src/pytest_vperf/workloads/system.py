"""Context switches: how often a processor goes from one process to the other in a second.

Two processes on one processor hand a token to and fro through pipes, as in the ring of lmbench's lat_ctx(8) with two
processes of size 0. A switch is counted with the write and the read that bring it about: lmbench takes their time off
again, which is not done here, since the difference of two measured times is noisier than either.

System calls: how often a program enters the kernel and comes back in a second.

The call is getppid, lmbench's "null" system call (lat_syscall(8)): it does next to nothing, its answer may change, so
that no library remembers it, and no vDSO answers it without the kernel. It is made through syscall(2), and every
answer is checked. What is counted is calls; lmbench tells the time of one, which is one by the rate.
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
    """The rate of system calls, as a test asks for it."""

    workload = VperfSyscalls


@dataclass(frozen=True)
class SwitchesResult:
    """What a run measured.

    Attributes:
        implementation: ``vperf-switches 1.0``.
        rate: switches, in operation/s.
        counted: whether the kernel counted as many switches as the program (getrusage(2)); gVisor's counts none.
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
    """The rate of context switches of two processes that take turns, as a test asks for it."""

    workload = VperfSwitches
