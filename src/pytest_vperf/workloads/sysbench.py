"""sysbench: how fast CPUs divide, and memory is written and read. Versions 0.4, 0.5, 1.0 and 1.1.

*cpu* tests every number up to ``max_prime`` for being prime by trial division; one such pass is an *event*.
*memory* writes or reads blocks until ``total_size`` is moved; a block is an *operation*.

A run ends after a number of events (or bytes), and its time is the measure; or after a time, and its rate is. They
are different metrics: the total time of a time-limited run is the limit itself, so asking for it is an error.
0.4 and 0.5 end after 10 000 events by default, 1.0 after 10 s; here a default is never left to the tool.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal

from pytest_vperf.workloads.sysbench.cpu import CpuResult, SysbenchCpu
from pytest_vperf.workloads.sysbench.memory import MemoryResult, SysbenchMemory
from pytest_vperf.workloads.sysbench.report import Fairness, Latency

if TYPE_CHECKING:
    from pytest_vperf.targets.base import Target
    from pytest_vperf.workloads.bench import Bench

__all__ = [
    "CpuResult",
    "Fairness",
    "Latency",
    "MemoryResult",
    "Sysbench",
    "SysbenchCpu",
    "SysbenchMemory",
]


class Sysbench:
    """sysbench, as a test asks for it.

    Args:
        bench: what runs it and keeps its version.
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
