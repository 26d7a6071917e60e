"""What is judged: every rule at every true difference, in four tables."""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING

from verdicts import ours
from verdicts.field import FIELD
from verdicts.field.means import mean_below, ratio_of_means
from verdicts.source import Simulated

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from verdicts.decisions import Decisions
    from verdicts.draws import Draws

    Judge = Callable[[Draws], Decisions]

#: True slowdowns of B over A, in percent.
SLOWDOWNS = (0.0, 1.0, 2.0, 5.0, 10.0)
#: Tolerances of the comparison, in percent.
TOLERANCES = (2.0, 5.0)
#: Near: the value and the band, and how far the true ratio is off the value, in percent.
VALUE, BAND, OFFSETS = 0.75, 5.0, (0.0, 2.0, 5.0, 10.0)
#: Limits, in percent of the true median: what holds is at or above 100.
LIMITS = (80.0, 90.0, 110.0, 120.0)
RATIO_OF_MEANS, MEAN_BELOW = "ratio of means of 20", "mean of 20 ≤ limit"


@dataclass(frozen=True, order=True)
class Cell:
    """One rule at one true difference.

    Attributes:
        table: its name, as made by `comparison`, or `NEAR`, or `LIMIT`.
        rule: the name of its row.
        truth: the true difference, in percent.
    """

    table: str
    rule: str
    truth: float


def comparison(tolerance: float) -> str:
    """The table of a tolerance in percent."""
    return f"B no slower than A, tolerance {tolerance:g} %"


NEAR = f"B/A near {VALUE:g} ± {BAND:g} %"
LIMIT = "A at most a limit"


def all_cells() -> Mapping[Cell, Judge]:
    """Everything there is, in the order of the tables, the rules under test last in each."""
    cells: dict[Cell, Judge] = {}
    for percent in TOLERANCES:
        cells |= _comparison(percent)
    for off in OFFSETS:
        factor = VALUE * (1 + off / 100)
        cells[Cell(NEAR, RATIO_OF_MEANS, off)] = partial(_ratio_of_means, factor)
        cells[Cell(NEAR, ours.NEAR, off)] = partial(
            ours.near, factor=factor, value=VALUE, tolerance=BAND / 100
        )
    for share in LIMITS:
        cells[Cell(LIMIT, MEAN_BELOW, share)] = partial(_mean_below, share)
        cells[Cell(LIMIT, ours.LIMIT, share)] = partial(_limit, ours.limit, share)
        cells[Cell(LIMIT, ours.LIMIT_APART, share)] = partial(_limit, ours.limit_apart, share)
    return cells


def _comparison(percent: float) -> dict[Cell, Judge]:
    table, tolerance = comparison(percent), percent / 100
    cells: dict[Cell, Judge] = {}
    for slowdown in SLOWDOWNS:
        factor = 1 + slowdown / 100
        for name in FIELD:
            cells[Cell(table, name, slowdown)] = partial(_field, name, factor, tolerance)
        compare = partial(ours.compare, factor=factor, tolerance=tolerance)
        cells[Cell(table, ours.COMPARE, slowdown)] = compare
        cells[Cell(table, ours.SUITE, slowdown)] = partial(compare, alpha=ours.SUITE_ALPHA)
    return cells


def _field(name: str, factor: float, tolerance: float, draws: Draws) -> Decisions:
    return FIELD[name](Simulated(draws, factor), tolerance)


def _ratio_of_means(factor: float, draws: Draws) -> Decisions:
    return ratio_of_means(Simulated(draws, factor), VALUE, BAND / 100)


def _mean_below(share: float, draws: Draws) -> Decisions:
    return mean_below(Simulated(draws, 1.0), draws.trace.median * share / 100)


def _limit(judge: Callable[[Draws, float], Decisions], share: float, draws: Draws) -> Decisions:
    return judge(draws, draws.trace.median * share / 100)
