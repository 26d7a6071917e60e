"""Two targets that do the same work at the same instant, as the two arms of a claim."""

from __future__ import annotations

from typing import TYPE_CHECKING, Generic, TypeVar

from pytest_vperf.workloads.together import together

if TYPE_CHECKING:
    from collections.abc import Callable

    from pytest_vperf.quantity import Quantity
    from pytest_vperf.targets.base import Target
    from pytest_vperf.workloads.base import Workload
    from pytest_vperf.workloads.bench import Bench

R = TypeVar("R")


class Race(Generic[R]):
    """Runs a workload in two targets at once, and gives either one's figure when it is asked for.

    A claim samples its two arms one after the other, in an order that a coin decides. One run of both serves the two
    samples of a pair: the arm that is asked for first begins it, the other one has its figure already.

    Args:
        bench: runs the workload.
        work: what both do.
        first: a target.
        second: the other one.
        figure: which figure of a result is the sample, e.g. ``lambda result: result.total_time``.
    """

    def __init__(
        self,
        bench: Bench,
        work: Workload[R],
        first: Target,
        second: Target,
        *,
        figure: Callable[[R], Quantity],
    ) -> None:
        self._bench = bench
        self._work = work
        self._targets = (first, second)
        self._figure = figure
        self._waiting: list[Quantity | None] = [None, None]

    def first(self) -> Quantity:
        """A sample of the first target."""
        return self._sample(0)

    def second(self) -> Quantity:
        """A sample of the second target."""
        return self._sample(1)

    def _sample(self, arm: int) -> Quantity:
        """The figure that waits for this arm, else that of a new run: no figure is given out twice."""
        value = self._waiting[arm]
        if value is None:
            results = together(self._bench, self._work, *self._targets).results
            self._waiting = [self._figure(result) for result in results]
            value = self._waiting[arm]
        self._waiting[arm] = None
        assert value is not None
        return value
