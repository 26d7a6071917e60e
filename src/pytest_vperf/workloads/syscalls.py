"""System calls: how often a program enters the kernel and comes back in a second.

The call is getppid, lmbench's "null" system call (lat_syscall(8)): it does next to nothing, its answer may change, so
that no library remembers it, and no vDSO answers it without the kernel. It is made through syscall(2), and every
answer is checked. What is counted is calls; lmbench tells the time of one, which is one by the rate.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

from pytest_vperf.workloads import own_program
from pytest_vperf.workloads.figures import Reader
from pytest_vperf.workloads.kernel_rate import rate

if TYPE_CHECKING:
    from pytest_vperf.quantity import Quantity
    from pytest_vperf.targets.base import Target
    from pytest_vperf.workloads.base import Output
    from pytest_vperf.workloads.bench import Bench


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


class Syscalls:
    """The rate of system calls, as a test asks for it.

    Args:
        bench: what runs it.
    """

    def __init__(self, bench: Bench) -> None:
        self._bench = bench

    def run(self, target: Target, *, time: float = 2.0, warmup: float = 0.0) -> SyscallsResult:
        """Make system calls for ``time`` seconds after ``warmup``; see `Bench.run` for the errors."""
        return self._bench.run(target, VperfSyscalls(time, warmup))
