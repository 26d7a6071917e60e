"""What the rules under test have to reach, and whether they did."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

from verdicts import ours
from verdicts.cells import LIMIT, NEAR, Cell, comparison
from verdicts.decisions import lower_bound, upper_bound
from verdicts.tables import aligned, percent, short

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from verdicts.decisions import Tally

Counted = Literal["refuted", "holds"]
#: *aim* and *pass*: reached as counted. *open*: not reached as counted, but so few decisions may show that of a rule
#: that does reach it (one-sided, 5 %). *FAIL*: not reached.
Outcome = Literal["aim", "pass", "open", "FAIL"]


@dataclass(frozen=True)
class Rate:
    """A share of decisions that must not be too great, or too small.

    Attributes:
        name: of the metric.
        cells: what is counted in which cells.
        at_most: whether less is better.
        must: the bound, as a fraction.
        aim: the bound hoped for.
    """

    name: str
    cells: Sequence[tuple[Cell, Counted]]
    at_most: bool
    must: float
    aim: float


@dataclass(frozen=True)
class Effort:
    """A mean number of samples that must not be exceeded."""

    name: str
    cell: Cell
    must: float
    aim: float


@dataclass(frozen=True)
class Score:
    """A metric as it came out, in words for a table.

    ``shown`` says whether the bound of 95 % confidence reaches the must, too: a count of none proves no rate of 0.
    """

    name: str
    decisions: int
    value: str
    bound: str
    must: str
    aim: str
    shown: str
    outcome: Outcome


#: The one-sided 95 % point of the normal law.
_ONE_SIDED = 1.645


def _compared(slowdown: float) -> Cell:
    return Cell(comparison(2.0), ours.COMPARE, slowdown)


def _near(off: float) -> Cell:
    return Cell(NEAR, ours.NEAR, off)


RATES = (
    Rate("false alarm, d = 0", [(_compared(0), "refuted")], True, 0.002, 0.0002),
    Rate("false alarm, d = 1 %", [(_compared(1), "refuted")], True, 0.002, 0.0002),
    Rate("false alarm, d = tolerance", [(_compared(2), "refuted")], True, 0.01, 0.005),
    Rate("miss, d = tolerance", [(_compared(2), "holds")], True, 0.01, 0.005),
    Rate("found, d = 5 %", [(_compared(5), "refuted")], False, 0.99, 0.999),
    Rate("holds, d = 0", [(_compared(0), "holds")], False, 0.95, 0.98),
    Rate("near, wrong at 0 %", [(_near(0), "refuted")], True, 0.002, 0.0),
    Rate("near, wrong at 2 %", [(_near(2), "refuted")], True, 0.002, 0.0),
    Rate("near, wrong at 10 %", [(_near(10), "holds")], True, 0.002, 0.0),
    *(
        Rate(
            f"{name} ± 20 %, wrong",
            [(Cell(LIMIT, rule, 80.0), "holds"), (Cell(LIMIT, rule, 120.0), "refuted")],
            True,
            0.005,
            0.001,
        )
        for name, rule in (("limit", ours.LIMIT), ("limit, apart,", ours.LIMIT_APART))
    ),
)
EFFORTS = (
    Effort("samples, d = 0", _compared(0), 185, 120),
    Effort("samples, d = 5 %", _compared(5), 115, 75),
    Effort("samples, d = 10 %", _compared(10), 43, 28),
)


def scores(tallies: Mapping[Cell, Tally]) -> list[Score]:
    """Every metric, rates first."""
    found = [_rate(goal, tallies) for goal in RATES]
    return found + [_effort(goal, tallies[goal.cell]) for goal in EFFORTS]


def _rate(goal: Rate, tallies: Mapping[Cell, Tally]) -> Score:
    count = sum(int(getattr(tallies[cell], counted)) for cell, counted in goal.cells)
    total = sum(tallies[cell].total for cell, _ in goal.cells)
    rate, low, high = count / total, lower_bound(count, total), upper_bound(count, total)
    sign = "≤" if goal.at_most else "≥"

    def reached(bound: float) -> bool:
        return rate <= bound if goal.at_most else rate >= bound

    possible = low <= goal.must if goal.at_most else high >= goal.must
    shown = high <= goal.must if goal.at_most else low >= goal.must
    outcome: Outcome = "open" if possible else "FAIL"
    if reached(goal.must):
        outcome = "aim" if reached(goal.aim) else "pass"
    return Score(
        goal.name,
        total,
        f"{count} = {percent(count, total)} %" if count else "0",
        f"< {short(100 * high)} %" if goal.at_most else f"> {short(100 * low)} %",
        f"{sign} {100 * goal.must:g} %",
        f"{sign} {100 * goal.aim:g} %",
        "yes" if shown else "no",
        outcome,
    )


def _effort(goal: Effort, tally: Tally) -> Score:
    mean, margin = tally.mean_samples, _ONE_SIDED * tally.samples_error
    outcome: Outcome = "open" if mean - margin <= goal.must else "FAIL"
    if mean <= goal.must:
        outcome = "aim" if mean <= goal.aim else "pass"
    return Score(
        goal.name,
        tally.total,
        f"{mean:.1f}",
        f"< {mean + margin:.1f}",
        f"≤ {goal.must:g}",
        f"≤ {goal.aim:g}",
        "yes" if mean + margin <= goal.must else "no",
        outcome,
    )


def score_table(found: Sequence[Score]) -> str:
    """The metrics, one a row."""
    rows = [["metric", "decisions", "seen", "95 % bound", "must", "aim", "shown", "outcome"]]
    for score in found:
        rows.append(
            [
                score.name,
                str(score.decisions),
                score.value,
                score.bound,
                score.must,
                score.aim,
                score.shown,
                score.outcome,
            ]
        )
    return aligned(rows)


def gate(found: Sequence[Score], *, strict: bool) -> int:
    """The exit status: 1 where a metric was missed; strict, also where it is open."""
    bad = {"FAIL", "open"} if strict else {"FAIL"}
    return int(any(score.outcome in bad for score in found))
