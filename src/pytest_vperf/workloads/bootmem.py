"""The memory that a machine has lost to its kernel, and what else runs, when it has just been started.

    taken = memory given to the machine - MemAvailable

MemTotal is not what the machine was given: it lacks what the firmware keeps and what the kernel takes before it
counts (its code and data, a description of every page, the reserve for a crash kernel), which differs from kernel to
kernel. Nor is MemFree what is left: pages of files can be dropped, and are no cost. MemAvailable is the kernel's
estimate of what new programs can have without swapping (proc(5); since Linux 3.14).

So the figure is what no workload can have, whoever has it: kernel, its modules, the agent or init, and the idle
process of a container. The same image and the same memory given, a difference is the kernel's.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from pytest_vperf.quantity import Quantity, amount
from pytest_vperf.targets.base import Unavailable
from pytest_vperf.workloads.base import Output, ParseError
from pytest_vperf.workloads.bench import ENVIRONMENT
from pytest_vperf.workloads.guestmem import Meminfo

if TYPE_CHECKING:
    from pytest_vperf.targets.base import Target
    from pytest_vperf.workloads.bench import Bench


class BootMem:
    """What a machine's start cost of its memory, as a test asks for it.

    Args:
        bench: notes the tool.
    """

    def __init__(self, bench: Bench) -> None:
        self._bench = bench

    def taken(self, machine: Target, *, of: str) -> Quantity:
        """What cannot be had of the memory that a machine was given, in KiB, lower is better.

        Its parts are ``reserved``, which is not even in MemTotal, and ``in use``.

        Args:
            machine: just started.
            of: the memory that it was given, e.g. ``512 MiB``.

        Raises:
            Unavailable: its kernel knows no MemAvailable.
            ParseError: it says that it has more than it was given, or ``/proc/meminfo`` cannot be read.
        """
        workload = Meminfo()
        program = machine.program(workload.tool)
        # Nothing is timed in the machine, so its clock need not be checked, as Bench.run would.
        version = self._bench.version(machine, program, workload)
        completed = machine.run(
            [*program.argv, *workload.argv(version)], env=ENVIRONMENT, timeout=workload.timeout
        )
        output = Output.of(completed, version)
        memory = workload.parse(output)
        if memory.available is None:
            raise Unavailable(
                "its kernel does not say how much memory is available (Linux 3.14 and newer do)",
                target=machine.name,
            )
        given = amount("of", of, "KiB", such_as="512 MiB")
        total, available = memory.total.value, memory.available.value
        if not available <= total <= given:
            raise ParseError(
                workload.tool,
                f"MemTotal {total:g} kB and MemAvailable {available:g} kB are not of {of}",
                output,
            )
        parts = (("reserved", given - total), ("in use", total - available))
        return Quantity(given - available, "KiB", parts, better="lower")
