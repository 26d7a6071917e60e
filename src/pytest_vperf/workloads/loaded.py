"""The three conditions in which the field measures response times: idle, loaded system, and loaded target as well.
*idle*: nothing but the test runs; *loaded_system*: other targets keep the host's processors busy; *loaded_both*: the
target that answers computes, too.

A load has to be proven: the CPU time of every loader is read before and after each sample, by the host's account, and
its processes are looked for afterwards. A sample without its load, or whose load ended meanwhile, is an error.
"""

from __future__ import annotations

import contextlib
import time
from dataclasses import dataclass
from typing import TYPE_CHECKING

from pytest_vperf.quantity import Quantity
from pytest_vperf.targets.base import ON, Facts, TargetError, Unavailable

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from pytest_vperf.targets.base import Target
    from pytest_vperf.targets.scope import Scope
    from pytest_vperf.workloads.cpuhog import CpuHog, Load

#: Each condition: whether the system is loaded, and whether the target is.
CONDITIONS = {"idle": (False, False), "loaded_system": (True, False), "loaded_both": (True, True)}
#: Most loaders: 003_4ad515ced36f0f28.txt, "Software and Tunings", has six with 4 virtual CPUs each, together as many
#: as its server has CPUs.
MOST_LOADERS = 6
#: The part of its fair share of the processors that a load must have used for a sample to count. It is small, because
#: other work on the machine loads it as well; but a load that is stopped or waits uses nothing.
LEAST = 0.05
#: The two ends of a request-response test, each of which needs a processor at times.
_ENDS = 2


def loaders_for(cpus: int) -> tuple[int, ...]:
    """The number of loaders for a machine, and of virtual CPUs of each: in all as many as it has CPUs. 24 CPUs give
    the published runs' six with 4 each; fewer CPUs give smaller loaders, then fewer.

    Raises:
        ValueError: it has none.
    """
    if cpus < 1:
        raise ValueError(f"a machine has at least one CPU, not {cpus}")
    number = min(MOST_LOADERS, cpus)
    return tuple(cpus // number + (place < cpus % number) for place in range(number))


@dataclass(frozen=True)
class _Loader:
    """A running load, and the source of its usage.

    Attributes:
        load: the processes.
        target: where it runs.
        workers: number of computing processes.
        by_host: whether the usage is the host's account of the target; else it is that of the target's kernel, by
            process: on the host itself, which has no such account, and in the target that answers, which does other
            work.
    """

    load: Load
    target: Target
    workers: int
    by_host: bool

    def used(self) -> tuple[float, float]:
        """The current time, and the CPU time in s until then."""
        at = time.monotonic()
        if self.by_host:
            return at, self.target.usage().cpu_time
        return at, self.load.cpu_time().value


class Under:
    """A condition in effect; made by `Loaded`.

    Args:
        condition: its name.
        cpuhog: loads the target that answers.
        cpus: the host's.
        loaders: the system's.
        stack: ends them.
    """

    def __init__(
        self,
        condition: str,
        cpuhog: CpuHog,
        cpus: int,
        loaders: Sequence[_Loader],
        stack: contextlib.ExitStack,
    ) -> None:
        self.condition = condition
        self._cpuhog = cpuhog
        self._cpus = cpus
        self._loaders = tuple(loaders)
        self._stack = stack
        self._failed = False

    def during(self, target: Target, sample: Callable[[], Quantity]) -> Callable[[], Quantity]:
        """A sampler that takes ``sample`` in this condition.

        Args:
            target: the one that answers; loaded during the sample if the condition says so.
            sample: takes one sample.

        Returns:
            A sampler that also proves the load. With the sample: ``system_load``, the loaders' share of all
            processors meanwhile, in %; ``target_load``, the share of one processor that the target's own load had, by
            the account of the target's kernel.

        Raises:
            by the sampler: TargetError if a load is not one; and the errors of the sample.
        """

        def taken() -> Quantity:
            with self._loaded(target) as own:
                every = (*self._loaders, *own)
                before = [loader.used() for loader in every]
                value = sample()
                shares = [
                    self._share(loader, then, len(own))
                    for loader, then in zip(every, before, strict=True)
                ]
            system = sum(shares[: len(self._loaders)])
            return value.with_extra(
                system_load=Quantity(100 * system / self._cpus, "%") if self._loaders else None,
                target_load=Quantity(100 * shares[-1], "%") if own else None,
            )

        def noticed() -> Quantity:
            try:
                return taken()
            except BaseException:
                self._failed = True
                raise

        return noticed

    @contextlib.contextmanager
    def _loaded(self, target: Target) -> Iterator[tuple[_Loader, ...]]:
        """Load the target only during its sample, so that the other arm of a comparison is not affected."""
        if not CONDITIONS[self.condition][1]:
            yield ()
            return
        with self._cpuhog.load(target) as load:
            yield (_Loader(load, target, 1, by_host=False),)

    def _share(self, loader: _Loader, before: tuple[float, float], own: int) -> float:
        """The number of processors that a load used since ``before``; raises if it used too little or has ended."""
        now, used = loader.used()
        loader.load.check_running()
        share = (used - before[1]) / (now - before[0])
        wanting = sum(each.workers for each in self._loaders) + own + _ENDS
        fair = loader.workers * min(1.0, self._cpus / wanting)
        if share < LEAST * fair:
            raise TargetError(
                f"the load on {loader.target.name} was none: it had {100 * share:.1f} % of a processor while the"
                f" sample was taken, less than {100 * LEAST * fair:.1f} %, {LEAST:.0%} of its fair share",
                target=loader.target.name,
            )
        return share

    def close(self) -> None:
        """End the loads. Safe to repeat.

        Raises:
            TargetError: one had lost workers, and no sample has reported it.
        """
        try:
            self._stack.close()
        except TargetError:
            if not self._failed:
                raise


class Loaded:
    """Makes the conditions, for the fixture ``loaded``.

    ``under = loaded("loaded_both", by=start, on=host)``, then ``under.during(target, sample)`` is a sampler.

    Args:
        cpuhog: the load.
        scope: owns it: it ends with the test, before the targets that it is in.
    """

    def __init__(self, cpuhog: CpuHog, scope: Scope) -> None:
        self._cpuhog = cpuhog
        self._scope = scope

    def __call__(
        self,
        condition: str,
        *,
        on: Target | None,
        by: Callable[[int], Target] | None = None,
        machines: Callable[[], Sequence[Target]] | None = None,
        cpus: int | None = None,
    ) -> Under:
        """Load the system, if the condition says so.

        Args:
            condition: one of `CONDITIONS`.
            on: the host whose processors to load; ``None``, with ``machines``, where it is not known.
            by: starts a loader with a given number of virtual CPUs; ``None`` to load it by the host's own processes.
            machines: returns loaders that are there already, each of which gets a busy loop for every processor that
                it has; called if the condition loads the system.
            cpus: the number of processors, if loaders may use others than the host's kernel does, as on Xen
                (`pytest_vperf.targets.libvirt.daemon.Machines.cpus`); ``None`` asks that kernel.

        Raises:
            ValueError: there is no such condition.
            CannotStart: a loader does not load.
            Unavailable: one is unavailable, or all together have fewer processors than the host.
        """
        if condition not in CONDITIONS:
            raise ValueError(f"condition is {condition!r}, not one of {', '.join(CONDITIONS)}")
        if cpus is None:
            cpus = _cpus_of(on) if on is not None else 0
        with contextlib.ExitStack() as stack:
            loaders: list[_Loader] = []
            if CONDITIONS[condition][0]:
                there = [(each, _cpus_of(each)) for each in machines()] if machines else []
                for target, vcpus in there or _started(cpus, on, by):
                    load = stack.enter_context(self._cpuhog.load(target, workers=vcpus))
                    # Of a machine that was not started here, no host tells us anything.
                    by_host = by is not None and not there
                    loaders.append(_Loader(load, target, vcpus, by_host=by_host))
                cpus = _loaded_cpus(loaders, cpus)
                self._scope.note_facts(_facts(condition, cpus, loaders))
            under = Under(condition, self._cpuhog, cpus, loaders, stack.pop_all())
        self._scope.keep(under)
        return under


def _started(
    cpus: int, on: Target | None, by: Callable[[int], Target] | None
) -> Iterator[tuple[Target, int]]:
    """Loaders as the published run has them, each with its number of virtual CPUs."""
    if on is None:
        raise ValueError("name the host whose processors to load: on=host")
    for vcpus in loaders_for(cpus):
        yield (on if by is None else by(vcpus)), vcpus


def _loaded_cpus(loaders: Sequence[_Loader], cpus: int) -> int:
    """The processors that loaders load: the host's, or, where it is not known (0), as many as they have themselves.

    Raises:
        Unavailable: they are too few for the host.
    """
    busy = sum(loader.workers for loader in loaders)
    if busy < cpus:
        raise Unavailable(
            f"the loaders have {busy} processors together, and their host has {cpus}: it would not be loaded",
            remedy="name more of them, or larger ones",
            target=loaders[0].target.name,
        )
    return cpus or busy


def _cpus_of(host: Target) -> int:
    """The processors that programs on a host may run on."""
    # nproc obeys these variables of OpenMP (GNU coreutils manual, "nproc invocation").
    asked = host.run(["nproc"], env={"OMP_NUM_THREADS": "", "OMP_THREAD_LIMIT": ""}).text.strip()
    if not asked.isdecimal():
        raise TargetError(f"nproc in {host.name} says {asked[:40]!r}", target=host.name)
    return int(asked)


def _facts(condition: str, cpus: int, loaders: Sequence[_Loader]) -> Facts:
    """For the record: the loaders, and how they differ from the published six with 4 virtual CPUs each."""
    where = loaders[0].target.facts().details
    each = ", ".join(f"{loader.target.name} with {loader.workers}" for loader in loaders)
    details = {
        "condition": condition,
        "host_cpus": str(cpus),
        "loaders": str(len(loaders)),
        "busy_loops": each,
        "published_loaders": "6 with 4 virtual CPUs each, on 24 CPUs",
        "proof": "CPU time of every loader, read before and after each sample",
    }
    if ON in where:
        details[ON] = where[ON]
    return Facts("load", f"load {condition}", details)
