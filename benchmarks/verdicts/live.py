"""Rules on work that really runs: arm B does exactly so many percent more of it than arm A."""

from __future__ import annotations

import random
import sys
import time
from functools import partial
from typing import TYPE_CHECKING

import numpy as np

from pytest_vperf import stats
from verdicts import ours
from verdicts.cells import Cell
from verdicts.decisions import CODES, Decisions, Tally
from verdicts.field import FIELD
from verdicts.source import Measured
from verdicts.workloads import WORKLOADS, NotHere

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    Sampler = Callable[[], float]
    Judge = Callable[[Sampler, Sampler, int], Decisions]

TOLERANCE = 2.0


def live(
    names: Sequence[str],
    slowdowns: Sequence[int],
    decisions: int,
    seed: int,
    *,
    alone: bool = False,
) -> Live:
    """Make so many decisions with each rule at each slowdown, in shuffled order, so that all share the weather.

    Args:
        names: of workloads.
        slowdowns: how many percent more work arm B does.
        decisions: of each rule at each slowdown.
        seed: of the orders.
        alone: whether only the rule under test decides.
    """
    judges = {ours.COMPARE: _compare} if alone else rules()
    found = Live()
    for name in names:
        try:
            _run(name, judges, slowdowns, decisions, seed, found)
        except NotHere as error:
            found.left_out[name] = str(error)
    return found


class Live:
    """What came out.

    Attributes:
        tallies: by cell, whose table is the workload's name.
        seconds: that the samples of a cell took.
        left_out: workloads that cannot run here, with the reason.
    """

    def __init__(self) -> None:
        self.tallies: dict[Cell, Tally] = {}
        self.seconds: dict[Cell, float] = {}
        self.left_out: dict[str, str] = {}

    def add(self, cell: Cell, made: Decisions, seconds: float) -> None:
        """Count a decision."""
        self.tallies[cell] = self.tallies.get(cell, Tally()) + Tally.of(made)
        self.seconds[cell] = self.seconds.get(cell, 0.0) + seconds


def rules() -> dict[str, Judge]:
    """The rules of the field that gate, and the one under test."""
    chosen = [name for name in FIELD if name.split()[0] in _GATES]
    found: dict[str, Judge] = {name: partial(_field, name) for name in chosen}
    found[ours.COMPARE] = _compare
    return found


_GATES = ("checkmetrics", "pytest-benchmark", "Firecracker")


def _field(name: str, a: Sampler, b: Sampler, _seed: int) -> Decisions:
    return FIELD[name](Measured(a, b), TOLERANCE / 100)


def _compare(a: Sampler, b: Sampler, seed: int) -> Decisions:
    result = stats.compare(a, b, tolerance=TOLERANCE / 100, seed=seed)
    return Decisions(
        np.array([CODES[result.verdict]], dtype=np.int8), np.array([result.samples], dtype=np.int64)
    )


def _run(
    name: str,
    judges: Mapping[str, Judge],
    slowdowns: Sequence[int],
    decisions: int,
    seed: int,
    found: Live,
) -> None:
    shuffle = random.Random(f"{seed} {name}")
    with WORKLOADS[name]() as sample:
        for number in range(decisions):
            cells = [Cell(name, rule, float(slowdown)) for rule in judges for slowdown in slowdowns]
            shuffle.shuffle(cells)
            for cell in cells:
                began = time.perf_counter()
                made = judges[cell.rule](
                    partial(sample, 0), partial(sample, int(cell.truth)), seed + number
                )
                found.add(cell, made, time.perf_counter() - began)
            if sys.stderr.isatty():
                print(f"\r\x1b[K{name}: {number + 1} of {decisions}", end="", file=sys.stderr)
    if sys.stderr.isatty():
        print(file=sys.stderr)
    # In the order of the rules, not of the shuffle.
    order = {rule: place for place, rule in enumerate(judges)}
    found.tallies = dict(
        sorted(found.tallies.items(), key=lambda item: (item[0].table, order[item[0].rule]))
    )
