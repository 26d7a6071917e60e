"""Many targets that run one workload at once, as one arm of a claim: a figure of all, with those of each."""

from __future__ import annotations

import contextlib
import math
from functools import partial
from typing import TYPE_CHECKING, Generic, Literal, TypeVar, cast

from pytest_vperf.quantity import Quantity, Series
from pytest_vperf.stats.spread import jain_index, stragglers, worst_over_median
from pytest_vperf.targets.many import fitting, start_many
from pytest_vperf.workloads.at_once import Starter, in_threads

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from pytest_vperf.targets.base import Target
    from pytest_vperf.targets.scope import Scope
    from pytest_vperf.workloads.base import Workload
    from pytest_vperf.workloads.bench import Bench
    from pytest_vperf.workloads.network_server import Server

R = TypeVar("R")
T = TypeVar("T", bound="Target")


class Crowd(Generic[T]):
    """Targets that work at the same time. Made by `Crowds`.

    Args:
        bench: runs their work.
        members: the targets; one that can run several commands at once may occur several times.
    """

    def __init__(self, bench: Bench, members: Sequence[T]) -> None:
        self.members = tuple(members)
        self._starter = Starter(bench)

    @contextlib.contextmanager
    def serving(
        self, serve: Callable[[T], contextlib.AbstractContextManager[Server]]
    ) -> Iterator[list[Server]]:
        """Run a server in every member during the block; return them in order. All are started and ended at once.

        Args:
            serve: a tool's, e.g. ``iperf3.serve``.

        Raises:
            the errors of ``serve``; servers already started then end with their targets.
        """
        every = [serve(member) for member in self.members]
        servers = in_threads([each.__enter__ for each in every])
        try:
            yield servers
        finally:
            in_threads([partial(each.__exit__, None, None, None) for each in every])

    def sample(
        self,
        work: Workload[R] | Sequence[Workload[R]],
        figure: Callable[[R], Quantity],
        *,
        of_all: Literal["mean", "sum"],
    ) -> Quantity:
        """Have all members work at once.

        Args:
            work: the same workload for all, or one for each.
            figure: returns the figure of a result, e.g. ``lambda result: result.total_time``; it has a direction.
            of_all: a time is the mean of all, a throughput their sum.

        Returns:
            The mean or sum. With it: ``each``, in the order of the members; ``fairness``, Jain's index of their
            rates; how many were left behind (``stragglers``), and how far the worst one was (``worst_over_median``);
            how far apart they began (``start_spread``), and how many were ``late`` at the barrier.
            `pytest_vperf.stats.spread` defines them.

        Raises:
            ValueError: the figure has no direction, or there is not one workload for each member.
            as `pytest_vperf.workloads.at_once.Starter.run`.
        """
        works = _for_each(work, len(self.members))
        ran = self._starter.run(list(zip(self.members, works, strict=True)))
        figures = [figure(result) for result in ran.results]
        first = figures[0]
        if not first.direction:
            raise ValueError(f"{first} has no direction, so it cannot tell who is left behind")
        values = [each.to(first.unit).value for each in figures]
        whole = math.fsum(values) / (len(values) if of_all == "mean" else 1)
        shares = values if first.direction == "higher" else [1 / value for value in values]
        count = float(len(values))
        return Quantity(whole, first.unit, direction=first.direction).with_extra(
            targets=Quantity(count),
            each=Series(tuple(values), first.unit),
            fairness=Quantity(jain_index(shares)),
            stragglers=Quantity(float(len(stragglers(values, direction=first.direction)))),
            worst_over_median=Quantity(worst_over_median(values, direction=first.direction)),
            start_spread=ran.spread,
            late=Quantity(float(ran.late)),
        )


def _for_each(work: Workload[R] | Sequence[Workload[R]], count: int) -> list[Workload[R]]:
    if hasattr(work, "argv"):
        return [cast("Workload[R]", work)] * count
    works = list(work)
    if len(works) != count:
        raise ValueError(f"there are {len(works)} workloads for {count} targets")
    return works


class Crowds:
    """Crowds of targets, for the fixture ``crowds``.

    Args:
        bench: runs their work.
        scope: owns the targets started.
        count: how many targets a crowd has; ``--scale-count``.
    """

    def __init__(self, bench: Bench, scope: Scope, count: int) -> None:
        self.count = count
        self._bench = bench
        self._scope = scope

    def start(self, start: Callable[[], T], count: int | None = None) -> Crowd[T]:
        """Start a crowd, several targets at a time; see `pytest_vperf.targets.many.start_many`.

        Args:
            start: starts one target.
            count: how many; ``None`` is `count`.
        """
        wanted = self.count if count is None else count
        return self.of(start_many(start, wanted, self._scope))

    def of(self, members: Sequence[T]) -> Crowd[T]:
        """A crowd of running targets."""
        return Crowd(self._bench, members)

    def fitting(self, host: Target, *, each: int) -> int:
        """How many machines of ``each`` bytes fit into a host's memory, at most `count`.

        See `pytest_vperf.targets.many.fitting`.
        """
        return fitting(host, each, self.count)
