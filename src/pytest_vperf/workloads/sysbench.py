"""sysbench: how fast CPUs divide, and memory is written and read. Versions 0.4, 0.5, 1.0 and 1.1.

*cpu* tests by trial division which numbers up to ``max_prime`` are prime; one such pass is an *event*.
*memory* writes or reads blocks until ``total_size`` is transferred; a block is an *operation*.

A run ends after a number of events (or bytes), and its time is the figure; or after a time, and its rate is. They
are different metrics: the total time of a time-limited run is the limit itself, so asking for it is an error.
0.4 and 0.5 end after 10 000 events by default, 1.0 after 10 s; here a default is never left to the tool.

Formats (report_cumulative in sysbench.c of the versions named): 0.4 prints "per-request statistics:", 0.5 "response
time:", the versions that led to 1.0 "Latency statistics:", each with the unit, ms or s, beside each figure; 1.0
prints "Latency (ms):". ``--percentile`` chooses another percentile than the 95th, or none ("disabled").

Units of memory: 0.4 and 0.5 print "MB/sec" and mean 2^20 bytes per second (``megabyte = 1024.0 *
1024.0`` in sysbench/tests/memory/sb_memory.c); later versions print the same figure as "MiB/sec".
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar, Literal

from pytest_vperf.quantity import Quantity, amount
from pytest_vperf.workloads.base import WORD, Output, ParseError, Reader, Unsupported, check_whole

if TYPE_CHECKING:
    from collections.abc import Sequence

    from pytest_vperf.targets.base import Target
    from pytest_vperf.workloads.bench import Bench

__all__ = [
    "EVENTS",
    "CpuResult",
    "Fairness",
    "Latency",
    "MemoryResult",
    "Run",
    "Sysbench",
    "SysbenchCpu",
    "SysbenchMemory",
    "check_rate",
    "command",
    "general",
    "version_of",
]


#: More events than any run reaches, and the greatest value of an option in 0.4 and 0.5.
_MANY = 2**31 - 1


def command(
    version: str, test: str, own: Sequence[str], threads: int, events: int, time: int
) -> tuple[str, ...]:
    """The arguments; 1.0 renamed some (ChangeLog of 1.0.0), and 0 means no limit.

    Raises:
        Unsupported: this version's options are unknown.
    """
    major = re.match(r"([0-9]{1,9})\.([0-9]{1,9})", version)
    if major is None:
        raise Unsupported(f"{version!r} is not a version whose options are known")
    if int(major[1]) >= 1:
        return (test, *own, f"--threads={threads}", f"--events={events}", f"--time={time}", "run")
    if (int(major[1]), int(major[2])) < (0, 4):
        raise Unsupported("the output of versions before 0.4 is not known")
    # There, 0 events for cpu means none at all, and the run ends at once (cpu_get_request in sb_cpu.c of 0.4.12 and
    # 0.5).
    if test == "cpu" and not events:
        events = _MANY
    limits = (f"--max-requests={events}", f"--max-time={time}")
    return (f"--test={test}", *own, f"--num-threads={threads}", *limits, "run")


def version_of(output: Output) -> str:
    """``1.0.20`` of ``sysbench 1.0.20``.

    Raises:
        ParseError: it is missing.
    """
    match = re.search(
        r"^sysbench v?([0-9]+\.[0-9]+[0-9A-Za-z.+-]*)", output.stdout, re.MULTILINE | re.ASCII
    )
    if match is None:
        raise ParseError("sysbench", "there is no version in what --version printed", output)
    return match[1]


#: The line of a percentile other than the 95th, or of none.
_OTHER_PERCENTILE = (
    r"^[ \t]+(?:(?:approx\.[ ]+)?(?!95(?:th)? )[0-9]{1,3}(?:th)? percentile:[ \t]*[0-9.]+(?:m?s)?"
    r"|percentile stats:[ \t]*disabled)[ \t]*$"
)


@dataclass(frozen=True)
class Latency:
    """How long one event took, in ms, with two decimals.

    Attributes:
        minimum: the shortest.
        average: the mean.
        maximum: the longest.
        percentile_95: from the tool's histogram, so it may be a little above the maximum; ``None`` if the run was
            told (``--percentile``) to print another one, or none.
    """

    minimum: Quantity
    average: Quantity
    maximum: Quantity
    percentile_95: Quantity | None


@dataclass(frozen=True)
class Fairness:
    """How evenly the threads shared the work.

    Attributes:
        events: mean number of events per thread.
        events_stddev: its standard deviation between threads.
        execution_time: mean time that a thread spent in events.
        execution_time_stddev: its standard deviation between threads.
    """

    events: float
    events_stddev: float
    execution_time: Quantity
    execution_time_stddev: Quantity


@dataclass(frozen=True)
class Run:
    """The output common to both tests.

    Attributes:
        limited_by: ``work`` or ``time``: the limit that the run was given.
        elapsed: the duration of the run; `total_time` is the same if it is a valid figure.
        events: number of events, in all threads.
        latency: of one event.
        fairness: between threads.
    """

    limited_by: Literal["work", "time"]
    elapsed: Quantity
    events: int
    latency: Latency
    fairness: Fairness

    @property
    def total_time(self) -> Quantity:
        """How long the given work took, in s; lower is better.

        Raises:
            ValueError: the run was limited by time, so its duration means nothing.
        """
        if self.limited_by == "time":
            raise ValueError(
                f"total_time does not measure a run that was told to end after a time ({self.elapsed} of it): "
                "ask for a rate, or limit the run by its work (without time=)"
            )
        return self.elapsed


def general(reader: Reader, threads: int) -> Run:
    """What follows "General statistics:" (0.4: "Test execution summary:"), in every test."""
    said = reader.need(rf"^Number of threads:[ \t]*({WORD})[ \t]*$", "number of threads")
    if reader.whole(said[1], "the number of threads") != threads:
        raise reader.error(f"it ran {said[1]} threads, not {threads}")
    # 1.1 says "time elapsed" under "Throughput:".
    elapsed = reader.need(r"^[ \t]+(?:total time|time elapsed):[ \t]*(\S+?)s[ \t]*$", "total time")
    events = reader.need(
        rf"^[ \t]+total number of events:[ \t]*({WORD})[ \t]*$", "total number of events"
    )
    run = Run(
        "work",
        reader.quantity(elapsed[1], "the total time", "s", "lower", positive=True),
        reader.whole(events[1], "the total number of events", positive=True),
        _latency(reader),
        _fairness(reader),
    )
    # With a margin: the two clocks do not start together.
    if run.latency.maximum.value > 2000 * run.elapsed.value + 100:
        raise reader.error("its longest event took longer than the run")
    return run


def check_rate(reader: Reader, count: int, elapsed: Quantity, rate: float, what: str) -> None:
    """Reject a rate that is not the count divided by the time.

    With a tolerance: the tool reads its clock separately for the two, which may be far apart on a busy machine; and
    prints a rate with two decimals, of which a slow machine may only have one significant digit.

    Raises:
        ParseError: it is far off.
    """
    if abs(rate * elapsed.value - count) > 0.1 * count + 0.5 * rate + 0.0051 * elapsed.value:
        raise reader.error(f"{count} in {elapsed.value:g} s are not {rate:g} {what}")


def _latency(reader: Reader) -> Latency:
    block = reader.need(
        r"^(?:[ \t]+(?:per-request statistics|response time):|Latency statistics:|Latency \((ms)\):)[ \t]*$",
        "latency",
    )
    suffix = "" if block[1] else "(m?s)"
    units = {block[1]} if block[1] else set()

    def figure(label: str, name: str) -> Quantity:
        match = reader.need(rf"^[ \t]+{label}:[ \t]*(\S+?){suffix}[ \t]*$", name)
        unit = match[2] if suffix else block[1]
        units.add(unit)
        found = reader.number(match[1], name) * (1000 if unit == "s" else 1)
        # Printed in hundredths of a ms, and the percentile is the edge of a bin.
        return Quantity(reader.checked(found, name), "ms", direction="lower", discrete=True)

    latency = Latency(
        figure("min", "minimum latency"),
        figure("avg", "average latency"),
        figure("max", "maximum latency"),
        None
        if reader.find(_OTHER_PERCENTILE, "percentile of latency")
        else figure(
            r"(?:approx\.[ ]+95(?:th)? percentile|95th percentile)", "95th percentile of latency"
        ),
    )
    if len(units) > 1:
        raise reader.error("its latencies have more than one unit")
    if not latency.minimum.value <= latency.average.value <= latency.maximum.value:
        raise reader.error("its average latency is not between minimum and maximum")
    return latency


def _fairness(reader: Reader) -> Fairness:
    def pair(label: str) -> tuple[float, float]:
        match = reader.need(
            rf"^[ \t]+{label} \(avg/stddev\):[ \t]*([^\s/]+)/([^\s/]+)[ \t]*$",
            f"{label} per thread",
        )
        return (
            reader.number(match[1], f"{label} per thread"),
            reader.number(match[2], f"the deviation of {label}"),
        )

    events, times = pair("events"), pair("execution time")
    spread = Quantity(times[1], "s", signed=True, discrete=True)  # of a single thread it is 0
    return Fairness(*events, Quantity(times[0], "s"), spread)


#: The default of 0.4 and 0.5 (general_args in sysbench/sysbench.c).
EVENTS = 10_000

#: One event with max_prime 50000 on the X3360 of the published runs; the work grows with max_prime^1.5.
_EVENT_SECONDS, _EVENT_PRIME = 8.54e-3, 50_000

#: An emulated machine was seen twenty times slower than its host.
_SLOWEST = 20.0


@dataclass(frozen=True)
class CpuResult(Run):
    """The result of a cpu run.

    Attributes:
        events_per_second: in operation/s; as printed, or the number of events divided by the time if the version
            (such as 0.4 and 0.5) does not print it.
    """

    events_per_second: Quantity


@dataclass(frozen=True)
class SysbenchCpu:
    """``sysbench cpu``.

    Attributes:
        max_prime: the largest number that an event tests.
        threads: how many threads share the events.
        events: the run ends after this many; 10 000 if neither limit is given.
        time: or after this many seconds.
    """

    tool: ClassVar[str] = "sysbench"
    version_argv: ClassVar[Sequence[str]] = ("--version",)

    max_prime: int = 10_000
    threads: int = 1
    events: int | None = None
    time: int | None = None

    def __post_init__(self) -> None:
        check_whole("max_prime", self.max_prime, least=3)
        check_whole("threads", self.threads)
        if self.events is not None and self.time is not None:
            raise ValueError("events and time: a run ends after one of them, not both")
        for name, value in (("events", self.events), ("time", self.time)):
            if value is not None:
                check_whole(name, value)

    def argv(self, version: str) -> tuple[str, ...]:
        """See `Workload.argv`."""
        limit = (0, self.time) if self.time is not None else (self.events or EVENTS, 0)
        return command(version, "cpu", [f"--cpu-max-prime={self.max_prime}"], self.threads, *limit)

    @property
    def timeout(self) -> float:
        """See `Workload.timeout`."""
        if self.time is not None:
            return 60.0 + 3 * self.time
        work = (self.events or EVENTS) * (self.max_prime / _EVENT_PRIME) ** 1.5
        return 60.0 + _SLOWEST * float(work) * _EVENT_SECONDS

    def parse(self, output: Output) -> CpuResult:
        """Read what a run printed; see `Workload.parse`."""
        reader = Reader(self.tool, output)
        # 0.4: "Maximum prime number checked in CPU test: N"; 0.5: "Primer numbers limit: N" at first; then "Prime …".
        limit = reader.need(
            rf"^(?:Maximum prime number checked in CPU test|Primer? numbers limit):[ \t]*({WORD})[ \t]*$",
            "prime numbers limit",
        )
        if reader.whole(limit[1], "the prime numbers limit") != self.max_prime:
            raise reader.error(f"it tested primes to {limit[1]}, not to {self.max_prime}")
        run = general(reader, self.threads)
        wanted = self.events or EVENTS
        # 0.4 and 0.5 check the number of events and then increment it without a lock, so that each further thread may
        # do one too many (cpu_get_request in sb_cpu.c).
        if self.time is None and not wanted <= run.events < wanted + self.threads:
            raise reader.error(f"it did {run.events} events, not {wanted}")
        # 1.0: "events per second:"; 1.1 also has "events/s (eps):", with more digits.
        printed = reader.find(
            rf"^[ \t]+events per second:[ \t]*({WORD})[ \t]*$", "events per second"
        )
        rate = (
            reader.number(printed[1], "events per second", positive=True)
            if printed
            else reader.checked(run.events / run.elapsed.value, "events per second", positive=True)
        )
        check_rate(reader, run.events, run.elapsed, rate, "events per second")
        return CpuResult(
            "work" if self.time is None else "time",
            run.elapsed,
            run.events,
            run.latency,
            run.fairness,
            Quantity(rate, "operation/s", direction="higher"),
        )

    @classmethod
    def version_of(cls, output: Output) -> str:
        """See `Workload.version_of`."""
        return version_of(output)


#: Least bytes per second for memory blocks of 1 KiB, even in emulation.
_SLOWEST_MEMORY = 50 * 2**20


@dataclass(frozen=True)
class MemoryResult(Run):
    """The result of a memory run.

    Attributes:
        throughput: in MiB/s.
        operations_per_second: blocks per second.
        transferred: amount of data, in MiB.
    """

    throughput: Quantity
    operations_per_second: Quantity
    transferred: Quantity


@dataclass(frozen=True)
class SysbenchMemory:
    """``sysbench memory``.

    Attributes:
        block_size: of one operation, e.g. ``1 KiB``.
        total_size: how much is transferred, in all threads; with a time limit, more than can be transferred in it.
        operation: ``read`` or ``write``.
        scope: one block for all threads (``global``) or one for each (``local``).
        access: ``seq`` or ``rnd``.
        threads: how many.
        time: the run ends after this many seconds instead.
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
        """See `Workload.argv`. The sizes are given in bytes, to avoid differing meanings of K."""
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
                rf"^(?:Memory {what}s? type|[ \t]+{what}):[ \t]*({WORD})[ \t]*$", what
            )
            if said and said[1] != wanted:
                raise reader.error(f"its {what} was {said[1]!r}, not {wanted!r}")
        # 0.4 and 0.5: "Operations performed: N (R ops/sec)"; 1.0: "Total operations: N (R per second)".
        operations = reader.need(
            rf"^(?:Operations performed|Total operations):[ \t]*({WORD})[ \t]+"
            r"\([ \t]*(\S+?)[ \t]*(?:ops/sec|per second)\)[ \t]*$",
            "number of operations",
        )
        moved = reader.need(
            rf"^({WORD})[ \t]+(Mi?B) transferred \([ \t]*(\S+?)[ \t]*\2/sec\)[ \t]*$",
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
        # Both are divided by the same time, and printed with two decimals. A MB of 10^6 bytes would be 5 % off.
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
            Quantity(throughput, "MiB/s", direction="higher"),
            Quantity(rate, "operation/s", direction="higher"),
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
        # Since 1.0 each thread has its share, and the remainder is left out (tls_total_ops in sb_memory.c).
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


class Sysbench:
    """sysbench, for the fixture ``sysbench``.

    Args:
        bench: runs it, and notes its version.
    """

    def __init__(self, bench: Bench) -> None:
        self._bench = bench

    def cpu(
        self,
        target: Target,
        *,
        max_prime: int = 10_000,
        threads: int = 1,
        events: int | None = None,
        time: int | None = None,
    ) -> CpuResult:
        """Run ``sysbench cpu``; see `SysbenchCpu` for the parameters, `Bench.run` for the errors."""
        return self._bench.run(target, SysbenchCpu(max_prime, threads, events, time))

    def memory(
        self,
        target: Target,
        *,
        block_size: str = "1 KiB",
        total_size: str = "100 GiB",
        operation: Literal["read", "write"] = "write",
        scope: Literal["global", "local"] = "global",
        access: Literal["seq", "rnd"] = "seq",
        threads: int = 1,
        time: int | None = None,
    ) -> MemoryResult:
        """Run ``sysbench memory``; see `SysbenchMemory` for the parameters, `Bench.run` for the errors."""
        return self._bench.run(
            target,
            SysbenchMemory(block_size, total_size, operation, scope, access, threads, time),
        )
