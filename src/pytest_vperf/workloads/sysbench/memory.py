"""``sysbench memory``: how fast memory is written and read, in blocks until ``total_size`` is moved.

A block is an *operation*. Units: 0.4 and 0.5 print "MB/sec" and mean 2^20 bytes per second (``megabyte = 1024.0 *
1024.0`` in sysbench/tests/memory/sb_memory.c); later versions print the same figure as "MiB/sec".
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar, Literal

from pytest_vperf.quantity import Quantity, amount
from pytest_vperf.workloads.figures import TOKEN, Reader
from pytest_vperf.workloads.parameters import check_whole
from pytest_vperf.workloads.sysbench.command import command, version_of
from pytest_vperf.workloads.sysbench.report import Run, check_rate, general

if TYPE_CHECKING:
    from collections.abc import Sequence

    from pytest_vperf.workloads.base import Output

#: Bytes per second that memory blocks of 1 KiB have at least, also where emulated.
_SLOWEST_MEMORY = 50 * 2**20


@dataclass(frozen=True)
class MemoryResult(Run):
    """What a memory run measured.

    Attributes:
        throughput: in MiB/s.
        operations_per_second: blocks per second.
        transferred: bytes moved, in MiB.
    """

    throughput: Quantity
    operations_per_second: Quantity
    transferred: Quantity


@dataclass(frozen=True)
class SysbenchMemory:
    """``sysbench memory``.

    Attributes:
        block_size: of one operation, e.g. ``1 KiB``.
        total_size: how much is moved, in all threads; where the time is the limit, more than can be moved in it.
        operation: ``read`` or ``write``.
        scope: one block for all threads (``global``) or one for each (``local``).
        access: ``seq`` or ``rnd``.
        threads: how many.
        time: the run ends after so many seconds instead.
    """

    tool: ClassVar[str] = "sysbench"
    version_argv: ClassVar[Sequence[str]] = ("--version",)

    block_size: str = "1 KiB"
    total_size: str = "100 GiB"
    operation: Literal["read", "write"] = "write"
    scope: Literal["global", "local"] = "global"
    access: Literal["seq", "rnd"] = "seq"
    threads: int = 1
    time: int | None = None

    def __post_init__(self) -> None:
        for name, known in (
            ("operation", ("read", "write")),
            ("scope", ("global", "local")),
            ("access", ("seq", "rnd")),
        ):
            if getattr(self, name) not in known:
                raise ValueError(f"{name} is {getattr(self, name)!r}, not {' or '.join(known)}")
        check_whole("threads", self.threads)
        if self.time is not None:
            check_whole("time", self.time)
        block, total = (
            _bytes("block_size", self.block_size),
            _bytes("total_size", self.total_size),
        )
        if block % 8 or block < 8:
            raise ValueError(f"block_size is {self.block_size}, not a multiple of 8 bytes")
        if total % block:
            raise ValueError(
                f"total_size is {self.total_size}, not a multiple of {self.block_size}"
            )

    def argv(self, version: str) -> tuple[str, ...]:
        """See `Workload.argv`. The sizes are given in bytes, which needs no agreement on what a K is."""
        own = [
            f"--memory-block-size={_bytes('block_size', self.block_size)}",
            f"--memory-total-size={_bytes('total_size', self.total_size)}",
            f"--memory-oper={self.operation}",
            f"--memory-scope={self.scope}",
            f"--memory-access-mode={self.access}",
        ]
        return command(version, "memory", own, self.threads, 0, self.time or 0)

    @property
    def timeout(self) -> float:
        """See `Workload.timeout`."""
        if self.time is not None:
            return 60.0 + 3 * self.time
        return 60.0 + _bytes("total_size", self.total_size) / _SLOWEST_MEMORY

    def parse(self, output: Output) -> MemoryResult:
        """Read what a run printed; see `Workload.parse`."""
        reader = Reader(self.tool, output)
        for what, wanted in (("operation", self.operation), ("scope", self.scope)):
            # 0.4: "Memory operations type: write", "Memory scope type: local"; 1.0: "  operation: write".
            said = reader.find(
                rf"^(?:Memory {what}s? type|[ \t]+{what}):[ \t]*({TOKEN})[ \t]*$", what
            )
            if said and said[1] != wanted:
                raise reader.error(f"its {what} was {said[1]!r}, not {wanted!r}")
        # 0.4 and 0.5: "Operations performed: N (R ops/sec)"; 1.0: "Total operations: N (R per second)".
        operations = reader.need(
            rf"^(?:Operations performed|Total operations):[ \t]*({TOKEN})[ \t]+"
            r"\([ \t]*(\S+?)[ \t]*(?:ops/sec|per second)\)[ \t]*$",
            "number of operations",
        )
        moved = reader.need(
            rf"^({TOKEN})[ \t]+(Mi?B) transferred \([ \t]*(\S+?)[ \t]*\2/sec\)[ \t]*$",
            "amount that was transferred",
        )
        run = general(reader, self.threads)
        count = reader.whole(operations[1], "the number of operations", positive=True)
        transferred = reader.number(moved[1], "the amount transferred", positive=True)
        self._check_amount(reader, count, transferred)
        rate, throughput = (
            reader.number(operations[2], "operations per second", positive=True),
            reader.number(moved[3], "the throughput", positive=True),
        )
        check_rate(reader, count, run.elapsed, rate, "operations per second")
        # Both are by the same time, and printed with two decimals. A MB of 10^6 bytes would be 5 % off.
        block = _bytes("block_size", self.block_size) / 2**20
        if abs(rate * block - throughput) > 0.0051 * (1 + block) + 0.01 * throughput:
            raise reader.error(
                f"{rate:g} operations of {self.block_size} per second are not {throughput:g} MiB/s"
            )
        return MemoryResult(
            "work" if self.time is None else "time",
            run.elapsed,
            run.events,
            run.latency,
            run.fairness,
            Quantity(throughput, "MiB/s", better="higher"),
            Quantity(rate, "operation/s", better="higher"),
            Quantity(transferred, "MiB"),
        )

    def _check_amount(self, reader: Reader, count: int, transferred: float) -> None:
        block, total = (
            _bytes("block_size", self.block_size),
            _bytes("total_size", self.total_size),
        )
        # Printed with two decimals.
        if abs(count * block / 2**20 - transferred) > 0.0051:
            raise reader.error(
                f"{count} operations of {self.block_size} are not the {transferred:g} MiB it transferred"
            )
        # Since 1.0 each thread has its share, and what cannot be shared out is left (tls_total_ops in sb_memory.c).
        shared = total // block // self.threads * self.threads
        whole = count in (total // block, shared)
        if self.time is None and not whole:
            raise reader.error(f"it did {count} operations, not the {total // block} asked for")
        if self.time is not None and whole:
            raise reader.error(
                f"all of {self.total_size} was transferred before {self.time} s were over: ask for more"
            )

    @classmethod
    def version_of(cls, output: Output) -> str:
        """See `Workload.version_of`."""
        return version_of(output)


def _bytes(name: str, text: str) -> int:
    value = amount(name, text, "byte", such_as="64 KiB")
    if value != int(value) or value <= 0:
        raise ValueError(f"{name} is {text}, not a whole number of bytes")
    return int(value)
