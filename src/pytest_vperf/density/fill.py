"""A filling from its request to its record: bounds, control group, starts, and what each target takes."""

from __future__ import annotations

import contextlib
import os
from typing import TYPE_CHECKING

from pytest_vperf.density.filler import Filler
from pytest_vperf.density.filling import Crowd, Filling, in_threads, many_files
from pytest_vperf.density.kinds import kept_of, kind_of
from pytest_vperf.results.record import Cost, FillingRecord, TargetFacts, spread
from pytest_vperf.results.run import now
from pytest_vperf.stats.spread import growth
from pytest_vperf.targets.base import TargetError, Unavailable

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence

    from pytest_vperf.density.bounds import Bounds
    from pytest_vperf.density.kinds import Starter
    from pytest_vperf.machine.runs import Run
    from pytest_vperf.quantity import Quantity
    from pytest_vperf.results.record import Reading, Spread
    from pytest_vperf.targets.base import Target
    from pytest_vperf.targets.kinds import TargetKind
    from pytest_vperf.targets.scope import Scope
    from pytest_vperf.workloads.memory import FreeResult, GuestMem, ProcMem

#: Of the intervals of what one further target takes.
_CONFIDENCE = 0.95
_MIB = 1 << 20


def fill(
    starter: Starter,
    options: Mapping[str, object],
    bounds: Bounds,
    *,
    kinds: Iterable[TargetKind],
    run: Run,
    scope: Scope,
    procmem: ProcMem,
    guestmem: GuestMem,
    nodeid: str,
    seed: int,
    say: Callable[[str], None],
    keep: Callable[[FillingRecord | None], None],
) -> Filling:
    """Fill the host with targets of one kind; if this raises, none of them is left.

    Args:
        starter: the fixture that starts such targets.
        options: of each start.
        bounds: how far.
        kinds: of targets.
        run: owns the control group.
        scope: the test's; ends the filling.
        procmem: tells the memory of processes.
        guestmem: tells the memory of a machine by its own account.
        nodeid: the test.
        seed: of the order in which targets are asked.
        say: is told how it goes, often.
        keep: takes the record, and is told with ``None`` when that is complete.

    Raises:
        Unavailable: such targets are unavailable here, or their memory cannot be limited or watched.
        TargetError: one did not start, or ended, for a reason that is not the host's want of something.
        TypeError: the starter, or an option, is none.
    """
    usual = kept_of(starter)
    floor = usual if bounds.floor is None else bounds.floor

    def limit(available: int) -> int:
        """What all of them may have, of what the host has available."""
        left = available - floor
        if left <= 0:
            raise Unavailable(
                f"the host has {available // _MIB} MiB available, and keeps {floor // _MIB} MiB",
                remedy="end something that takes memory, or a smaller --density-floor",
            )
        return left if bounds.memory is None else min(left, bounds.memory)

    crowd = Crowd(getattr(starter, "name", type(starter).__name__))
    kind = kind_of(kinds, starter, run, crowd, limit)
    crowd.name = kind.name
    options = {**kind.defaults, **options}
    at_once = len(os.sched_getaffinity(0))
    began, started, after = now(), None, contextlib.ExitStack()
    try:
        # Until all have ended: to look at one of many, and to end it, takes a file, too.
        after.enter_context(many_files())
        if kind.group is not None:
            after.callback(kind.group.close)
        memory = kind.group.limit if kind.group is not None else limit(kind.available())
        filler = Filler(
            kind,
            crowd,
            options,
            most=bounds.most,
            memory=memory,
            floor=floor,
            at_once=at_once,
            say=say,
        )
        stop = filler.fill()
        while True:
            targets = tuple(filler.pids)
            say(f"{kind.name}: {len(targets)} run, their memory is asked for")
            try:
                process = _processes(list(filler.pids.values()), procmem)
                inside = _insides(targets, guestmem, at_once) if kind.has_memory else {}
                break
            except TargetError:
                # To be asked takes some memory, too, and where there is none left another one is ended.
                late = filler.bury()
                if late is None:
                    raise
                stop = late
        record = FillingRecord(
            name=targets[0].name if targets else kind.name,
            nodeid=nodeid,
            started_at=began,
            duration_s=filler.curve[-1]["at_s"],
            teardown_s=None,
            count=len(targets),
            stop=stop.kind,
            why=stop.why,
            most=bounds.most,
            memory=memory,
            memory_asked=bounds.memory is not None and memory == bounds.memory,
            floor=floor,
            floor_asked=floor > usual,
            at_once=at_once,
            held=kind.group is not None,
            outside=kind.outside,
            watched=kind.watched,
            options={name: str(value) for name, value in options.items()},
            curve=filler.curve,
            process=process,
            inside=inside,
            cost=_cost(filler.curve, lambda reading: -reading["available"]),
            cost_in_group=_cost(filler.curve, lambda reading: reading["group_used"]),
            targets=_facts(targets),
        )
        keep(record)
        started = Filling(
            kind,
            crowd,
            filler.pids,
            stop,
            record,
            scope,
            seed=seed,
            keep=lambda: keep(None),
            release=after.close,
        )
        scope.keep(started)
    except BaseException as error:
        try:
            crowd.end()
        except TargetError:
            # A Ctrl-C stays one; the end of the run looks again for what did not end.
            if isinstance(error, Exception):
                raise
        finally:
            after.close()
        raise
    return started


def _processes(pids: Sequence[int | None], procmem: ProcMem) -> dict[str, Spread]:
    known = [pid for pid in pids if pid is not None]
    if not known:
        return {}
    found = [procmem.of(pid) for pid in known]
    figures = {
        "rss": [memory.rss.value for memory in found],
        "size": [memory.size.value for memory in found],
    }
    # libvirt's machines are another user's where pytest is not root's; how many run is known all the same.
    with contextlib.suppress(Unavailable):
        figures["pss"] = [procmem.pss(pid).value for pid in known]
    return {name: spread(values) for name, values in figures.items()}


def _insides(targets: Sequence[Target], guestmem: GuestMem, at_once: int) -> dict[str, Spread]:
    """The machines' own account of their memory; used and free add up to total, as in the documents."""
    if not targets:
        return {}
    said = in_threads(guestmem.free, targets, at_once)

    def spread_of(figure: Callable[[FreeResult], Quantity]) -> Spread:
        return spread([figure(each).to("MiB").value for each in said])

    return {
        "total": spread_of(lambda free: free.total),
        "used": spread_of(lambda free: free.in_use),
        "free": spread_of(lambda free: free.free),
    }


def _cost(curve: Sequence[Reading], taken: Callable[[Reading], int | None]) -> Cost | None:
    """What one more target costs; ``None`` where the readings cannot tell: there are too few, or none of this kind.

    Nor where the cost comes out as zero or less: other processes then freed more than it took.
    """
    rising: list[tuple[int, int]] = []
    for reading in curve:
        value = taken(reading)
        # After a want of memory no more run than before, and what was ended may have left something; only what rises
        # is a curve.
        if value is not None and (not rising or reading["n"] > rising[-1][0]):
            rising.append((reading["n"], value))
    if len(rising) < 2:
        return None
    numbers, values = [n for n, _ in rising], [value / _MIB for _, value in rising]
    found = growth(numbers, values, 1 - _CONFIDENCE)
    if found.estimate <= 0:
        return None
    return Cost(estimate=found.estimate, low=found.low, high=found.high, confidence=_CONFIDENCE)


def _facts(targets: Sequence[Target]) -> list[TargetFacts]:
    """The facts of the first one, since all are alike."""
    if not targets:
        return []
    facts = targets[0].facts()
    return [TargetFacts(kind=facts.kind, name=facts.name, arms=[], details=dict(facts.details))]
