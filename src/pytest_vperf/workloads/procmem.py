"""The memory of a process by the host's account: VmRSS and VmSize of proc(5), and Pss of its smaps_rollup.

The kernel counts in "kB" of 1024 bytes; here it is MiB of 2^20, which is what pages mean that divide those kB by 1024
and write MB.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from pytest_vperf.quantity import Quantity
from pytest_vperf.targets.base import TargetError, Unavailable

if TYPE_CHECKING:
    from collections.abc import Callable

    import psutil

    from pytest_vperf.targets.base import Target


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
    """The memory of processes of a host, as a test asks for it."""

    def of(self, process: int, *, on: Target | None = None) -> ProcessMemory:
        """The memory of one process, e.g. of a machine's QEMU.

        Args:
            process: its ID.
            on: the host that it runs on, where that may be another one: the fixture ``host``.

        Raises:
            TargetError: there is no such process, it is a kernel thread, or it has ended and was not waited for.
            Unavailable: this user may not ask.
        """
        if on is not None:
            text = _read(on, f"/proc/{process}/status", process)
            return ProcessMemory(*(_line(text, name, process) for name in ("VmRSS", "VmSize")))
        memory = _of(process, lambda each: each.memory_info())
        if memory.vms == 0:
            raise _none(process)
        return ProcessMemory(
            Quantity(memory.rss / 2**20, "MiB", better="lower"),
            Quantity(memory.vms / 2**20, "MiB", better="lower"),
        )

    def pss(self, process: int, *, on: Target | None = None) -> Quantity:
        """The proportional set of one process, in MiB: a page that n processes share counts as 1/n of it.

        That of all machines adds up to what they have of the host; only the owner of a process and root may ask.

        Raises:
            TargetError: as of `of`.
            Unavailable: likewise.
        """
        if on is not None:
            return _line(_read(on, f"/proc/{process}/smaps_rollup", process), "Pss", process)
        size = int(_of(process, lambda each: each.memory_full_info().pss))
        if size == 0:
            raise _none(process)
        return Quantity(size / 2**20, "MiB", better="lower")


def _of(process: int, ask: Callable[[psutil.Process], Any]) -> Any:
    import psutil

    try:
        return ask(psutil.Process(process))
    except psutil.NoSuchProcess:
        raise TargetError(f"there is no process {process}") from None
    except psutil.AccessDenied:
        raise Unavailable(
            f"the memory of process {process} cannot be read: it is another user's",
            remedy="run as that user, or as root",
        ) from None


def _read(host: Target, path: str, process: int) -> str:
    done = host.run(["cat", path], check=False)
    if done.returncode:
        words = done.stderr.decode("utf-8", "replace").strip()
        raise TargetError(f"the memory of process {process} cannot be read: {words}")
    return done.text


def _line(text: str, name: str, process: int) -> Quantity:
    """A line ``NAME: 123 kB``, which a process without memory of its own does not have."""
    found = re.search(rf"^{name}:\s+([0-9]+) kB$", text, re.MULTILINE)
    if found is None or not int(found[1]):
        raise _none(process)
    return Quantity(int(found[1]) / 1024, "MiB", better="lower")


def _none(process: int) -> TargetError:
    return TargetError(
        f"process {process} has no memory of its own: a kernel thread, or one that has ended"
    )
