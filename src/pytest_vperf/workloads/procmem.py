"""The memory of a process by the host's account: VmRSS, VmSize and Pss of proc(5).

The kernel counts in "kB" of 1024 bytes; here it is MiB of 2^20, which is what pages mean that divide those kB by 1024
and write MB.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path

from pytest_vperf.quantity import Quantity
from pytest_vperf.targets.base import TargetError


@dataclass(frozen=True)
class ProcessMemory:
    """What a process has of memory now.

    Attributes:
        rss: resident pages (VmRSS), shared ones included, in MiB.
        size: address space (VmSize), in MiB.
        pss: resident pages, each divided by the number of processes that share it (Pss of ``smaps_rollup``), in MiB:
            what processes have between them adds up. ``None`` before Linux 4.14.
    """

    rss: Quantity
    size: Quantity
    pss: Quantity | None = None


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
            _pss(process),
        )


def _pss(process: int) -> Quantity | None:
    try:
        text = Path(f"/proc/{process}/smaps_rollup").read_text()
    except FileNotFoundError:
        if Path(f"/proc/{process}").exists():
            return None
        raise TargetError(f"there is no process {process}") from None
    except OSError as error:
        # A process that has just ended says ESRCH.
        raise TargetError(
            f"the memory of process {process} cannot be read: {error.strerror}"
        ) from None
    match = re.search(r"^Pss:\s+(\d+) kB$", text, re.MULTILINE)
    if match is None:
        raise TargetError(f"the memory of process {process} has no Pss: {text[:200]!r}")
    return Quantity(int(match[1]) / 1024, "MiB", better="lower")
