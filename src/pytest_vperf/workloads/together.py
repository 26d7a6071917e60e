"""The same work on two targets, begun at the same instant: what weights and shares are about.

A clock in each target (NTP) and a job queue (``at``) are how such runs were once synchronised. Here both commands are
begun by one process on one clock, the host's, and how far apart they began is part of the result. For many targets,
where asking for a hundred commands takes longer than one runs, there is `pytest_vperf.workloads.at_once`.
"""

from __future__ import annotations

import threading
import time
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Generic, TypeVar, cast

from pytest_vperf.quantity import Quantity
from pytest_vperf.workloads.stand_in import StandIn

if TYPE_CHECKING:
    from collections.abc import Sequence

    from pytest_vperf.targets.base import Completed, Target
    from pytest_vperf.workloads.base import Workload
    from pytest_vperf.workloads.bench import Bench

R = TypeVar("R")


@dataclass(frozen=True)
class Together(Generic[R]):
    """What two runs measured that began together.

    Attributes:
        results: of the first target, and of the second.
        durations: of the two commands on the host's clock, in s, from request to end.
        start_offset: how much later the second was requested than the first, in ms; may be negative. What a target
            takes from the request until its process runs is in its duration.
    """

    results: tuple[R, R]
    durations: tuple[Quantity, Quantity]
    start_offset: Quantity


class _Gate(StandIn):
    """A target whose next command waits until the other one's is ready too.

    Args:
        target: runs it.
        barrier: where both wait.
    """

    def __init__(self, target: Target, barrier: threading.Barrier) -> None:
        super().__init__(target)
        self._barrier = barrier
        self.began = 0.0
        self.duration = 0.0

    def run(self, argv: Sequence[str], **options: Any) -> Completed:
        self._barrier.wait()
        self.began = time.perf_counter()
        done = self._target.run(argv, **options)
        self.duration = time.perf_counter() - self.began
        return done


def together(bench: Bench, work: Workload[R], first: Target, second: Target) -> Together[R]:
    """Run a workload on two targets at the same instant, and wait for both.

    Everything else, such as looking the tool up and asking for its version, is done before.

    Args:
        bench: runs them.
        work: what each does.
        first: a target.
        second: another one; they share no connection that one command would keep the other from.

    Raises:
        Whatever `Bench.run` raises for one of the two; the other one is waited for.
    """
    targets = (first, second)
    for target in targets:
        bench.version(target, target.program(work.tool), work)
        bench.check_clock(target)
    barrier = threading.Barrier(2)
    gates = [_Gate(target, barrier) for target in targets]
    results: dict[int, R] = {}
    errors: dict[int, BaseException] = {}

    def run(place: int) -> None:
        try:
            results[place] = bench.run(cast("Target", gates[place]), work)
        except BaseException as error:
            errors[place] = error
            barrier.abort()  # the other one does not wait for what will not come

    threads = [threading.Thread(target=run, args=(place,)) for place in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    if errors:
        # The one that failed says more than the one that waited in vain.
        causes = sorted(
            errors.values(), key=lambda error: isinstance(error, threading.BrokenBarrierError)
        )
        raise causes[0]
    return Together(
        (results[0], results[1]),
        (_seconds(gates[0].duration), _seconds(gates[1].duration)),
        Quantity((gates[1].began - gates[0].began) * 1e3, "ms"),
    )


def _seconds(value: float) -> Quantity:
    return Quantity(value, "s", better="lower")
