"""Runs every cell on every trace, on all processors; the result depends on the seed alone."""

from __future__ import annotations

import multiprocessing
import os
import signal
import sys
from dataclasses import dataclass
from typing import TYPE_CHECKING

from verdicts.cells import Cell, all_cells
from verdicts.decisions import Tally
from verdicts.draws import Draws, Noise

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Sequence

    from verdicts.trace import Trace

#: Counts of one trace and cell.
Tallies = dict[tuple[str, Cell], Tally]
_CHUNK = 20


@dataclass(frozen=True)
class Task:
    """Some decisions of some cells on one trace; ``cells`` is `None` for all."""

    trace: Trace
    numbers: range
    noise: Noise
    cells: frozenset[Cell] | None = None


def simulate(
    traces: Sequence[Trace],
    decisions: int,
    noise: Noise,
    cells: Collection[Cell] | None = None,
    processes: int | None = None,
) -> Tallies:
    """Make so many decisions in each cell on each trace."""
    chosen = None if cells is None else frozenset(cells)
    tasks = [
        Task(trace, range(begin, min(begin + _CHUNK, decisions)), noise, chosen)
        for begin in range(0, decisions, _CHUNK)
        for trace in traces
    ]
    sums: Tallies = {}

    def add(tallies: Tallies, number: int) -> None:
        for key, tally in tallies.items():
            sums[key] = sums.get(key, Tally()) + tally
        _say(f"{number} of {len(tasks)} parts", end=number == len(tasks))

    count = min(processes or len(os.sched_getaffinity(0)), len(tasks))
    if count == 1:
        for number, task in enumerate(tasks, 1):
            add(run(task), number)
        return sums
    with multiprocessing.get_context("fork").Pool(count, _quiet) as pool:
        for number, tallies in enumerate(pool.imap(run, tasks), 1):
            add(tallies, number)
    return sums


def _quiet() -> None:
    """Leave Ctrl-C to the parent, and end without a word when it says so."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    signal.signal(signal.SIGTERM, signal.SIG_DFL)


def run(task: Task) -> Tallies:
    """Make the decisions of a task."""
    draws = Draws(task.trace, task.numbers, task.noise)
    return {
        (task.trace.name, cell): Tally.of(judge(draws))
        for cell, judge in all_cells().items()
        if task.cells is None or cell in task.cells
    }


def over_traces(tallies: Tallies) -> dict[Cell, Tally]:
    """The counts of all traces together; each has as many decisions as the others."""
    return grouped(tallies, lambda _trace, cell: cell)


def grouped(tallies: Tallies, key: Callable[[str, Cell], Cell]) -> dict[Cell, Tally]:
    """The counts summed by a key."""
    sums: dict[Cell, Tally] = {}
    for (trace, cell), tally in tallies.items():
        name = key(trace, cell)
        sums[name] = sums.get(name, Tally()) + tally
    return sums


def _say(text: str, *, end: bool) -> None:
    if sys.stderr.isatty():
        print(f"\r\x1b[K{text}", end="\n" if end else "", file=sys.stderr, flush=True)
