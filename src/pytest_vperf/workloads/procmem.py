"""The memory of a process by the host's account: VmRSS and VmSize of proc(5).

The kernel counts in "kB" of 1024 bytes; here it is MiB of 2^20, which is what pages mean that divide those kB by 1024
and write MB.
"""

from __future__ import annotations

from dataclasses import dataclass

from pytest_vperf.quantity import Quantity
from pytest_vperf.targets.base import TargetError


@dataclass(frozen=True)
class ProcessMemory:
    """What a process has of memory now.

    Attributes:
        rss: resident pages (VmRSS), shared ones included, in MiB.
        size: address space (VmSize), in MiB.
    """

    rss: Quantity
    size: Quantity


class ProcMem:
    """The memory of processes on this host, as a test asks for it."""

    def of(self, process: int) -> ProcessMemory:
        """The memory of one process, e.g. of a machine's QEMU.

        Raises:
            TargetError: there is no such process, it is a kernel thread, or it has ended and was not waited for.
        """
        import psutil

        try:
            memory = psutil.Process(process).memory_info()
        except psutil.NoSuchProcess:
            raise TargetError(f"there is no process {process}") from None
        except psutil.AccessDenied:
            raise TargetError(f"the memory of process {process} cannot be read") from None
        if memory.vms == 0:
            raise TargetError(
                f"process {process} has no memory of its own: a kernel thread, or one that has ended"
            )
        return ProcessMemory(
            Quantity(memory.rss / 2**20, "MiB", better="lower"),
            Quantity(memory.vms / 2**20, "MiB", better="lower"),
        )
