"""``sysbench cpu``: how fast CPUs divide.

It tests every number up to ``max_prime`` for being prime by trial division; one such pass is an *event*.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

from pytest_vperf.quantity import Quantity
from pytest_vperf.workloads.figures import TOKEN, Reader
from pytest_vperf.workloads.parameters import check_whole
from pytest_vperf.workloads.sysbench.command import command, version_of
from pytest_vperf.workloads.sysbench.report import Run, check_rate, general

if TYPE_CHECKING:
    from collections.abc import Sequence

    from pytest_vperf.workloads.base import Output

#: What 0.4 and 0.5 do where no limit is named (general_args in sysbench/sysbench.c).
EVENTS = 10_000

#: One event with max_prime 50000 on the X3360 of the published runs; the work grows with max_prime^1.5.
_EVENT_SECONDS, _EVENT_PRIME = 8.54e-3, 50_000

#: An emulated machine was seen twenty times slower than its host.
_SLOWEST = 20.0


@dataclass(frozen=True)
class CpuResult(Run):
    """What a cpu run measured.

    Attributes:
        events_per_second: in operation/s; as printed, or the number of events by the time, where the version (such
            as 0.4 and 0.5) does not print it.
    """

    events_per_second: Quantity


@dataclass(frozen=True)
class SysbenchCpu:
    """``sysbench cpu``.

    Attributes:
        max_prime: the largest number that an event tests.
        threads: how many threads share the events.
        events: the run ends after so many; 10 000 where neither limit is given.
        time: or after so many seconds.
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
        limit = reader.find(
            rf"^(?:Maximum prime number checked in CPU test|Primer? numbers limit):[ \t]*({TOKEN})[ \t]*$",
            "prime numbers limit",
        )
        if limit and reader.whole(limit[1], "the prime numbers limit") != self.max_prime:
            raise reader.error(f"it tested primes to {limit[1]}, not to {self.max_prime}")
        run = general(reader, self.threads)
        wanted = self.events or EVENTS
        # 0.4 and 0.5 look at the number of events before they count one more, without a lock in between, so that each
        # further thread may do one too many (cpu_get_request in sb_cpu.c).
        if self.time is None and not wanted <= run.events < wanted + self.threads:
            raise reader.error(f"it did {run.events} events, not {wanted}")
        # 1.0: "events per second:"; 1.1 has "events/s (eps):" besides, with more digits.
        printed = reader.find(
            rf"^[ \t]+events per second:[ \t]*({TOKEN})[ \t]*$", "events per second"
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
            Quantity(rate, "operation/s", better="higher"),
        )

    @classmethod
    def version_of(cls, output: Output) -> str:
        """See `Workload.version_of`."""
        return version_of(output)
