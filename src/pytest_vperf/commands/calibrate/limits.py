"""Calibrated limits: one figure per run for every claim measured in all runs, and the limit made from them.

A limit is rounded away from the figures, and keeps its source. ``vperf calibrate`` prints a table, and a line for
each claim with a remark.
"""

from __future__ import annotations

import itertools
import math
from dataclasses import dataclass, field
from datetime import datetime
from decimal import ROUND_CEILING, ROUND_FLOOR, Decimal
from itertools import pairwise
from statistics import median
from typing import TYPE_CHECKING, Any

from pydantic_core import PydanticCustomError

from pytest_vperf.claims.judgement import SPAN
from pytest_vperf.commands.calibrate.survey import DIRECTIONS, LEFT_ALONE, MEASURED
from pytest_vperf.quantity import QuantityError, conversion_factor, format_number
from pytest_vperf.reporting.console import print_table, tell
from pytest_vperf.stats.prediction import predict
from pytest_vperf.thresholds.criterion import SIGNS
from pytest_vperf.thresholds.scalars import parse_claim_name

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from pytest_vperf.stats.rule import Side


#: With fewer samples the median of a run is hardly better than a single sample.
LEAST_SAMPLES = 3
_SIDES: Mapping[str, Side] = {
    DIRECTIONS["lower"]: "at_most",
    DIRECTIONS["higher"]: "at_least",
}


class Refused(Exception):
    """Why no limit can be made for a claim."""


@dataclass(frozen=True)
class Measured:
    """A claim that was measured in every run.

    Attributes:
        name: the claim's.
        side: of the limit.
        unit: of the figures.
        figures: the median of each run's samples.
        samples: the number of samples of each run.
        step: the smallest difference between two samples; 0 if all are equal.
        constant: whether all are equal.
    """

    name: str
    side: Side
    unit: str
    figures: tuple[float, ...]
    samples: tuple[int, ...]
    step: float
    constant: bool


@dataclass(frozen=True)
class Gathered:
    """The result of the runs: each claim is in one of the three, in the order of first appearance.

    Attributes:
        measured: claims that a limit can be made for.
        left_alone: by claim, why it needs no limit.
        refused: by claim, why no limit can be made.
    """

    measured: list[Measured] = field(default_factory=list)
    left_alone: dict[str, str] = field(default_factory=dict)
    refused: dict[str, str] = field(default_factory=dict)


def gather(documents: Sequence[Mapping[str, Any]]) -> Gathered:
    """The figures of all claims.

    Args:
        documents: the records of the runs, as `docs/results.md` describes them, at least one.
    """
    found = Gathered()
    runs = [document["claims"] for document in documents]
    for name in dict.fromkeys(record["name"] for record in itertools.chain(*runs)):
        records = [[each for each in run if each["name"] == name] for run in runs]
        alone = [each for run in records for each in run if each["criterion"] == LEFT_ALONE]
        if alone:
            found.left_alone[name] = alone[0]["reason"]
            continue
        try:
            found.measured.append(_measured(name, records))
        except Refused as error:
            found.refused[name] = str(error)
    return found


def _measured(name: str, runs: Sequence[Sequence[Mapping[str, Any]]]) -> Measured:
    try:
        parse_claim_name(name)
    except PydanticCustomError as error:
        raise Refused(error.message()) from None
    records = [_one(number, records) for number, records in enumerate(runs, 1)]
    unit, direction = records[0]["unit"], records[0]["criterion"]
    if not unit:
        raise Refused(
            "its samples have no unit: return Quantity(number, 'count') for a plain count"
        )
    if any(each["criterion"] != direction for each in records):
        raise Refused("the direction of its samples changes from run to run")
    if direction not in _SIDES:
        raise Refused(
            "its samples have no direction: return Quantity(…, direction='lower'), or 'higher'"
        )
    samples = [_in_unit(record, unit) for record in records]
    figures = [median(each) for each in samples]
    for number, figure in enumerate(figures, 1):
        if figure <= 0:
            raise Refused(
                f"run {number}: its median is {figure:g} {unit}, and a limit must be above 0"
            )
    values = sorted(set(itertools.chain(*samples)))
    steps = [high - low for low, high in itertools.pairwise(values)]
    return Measured(
        name=name,
        side=_SIDES[direction],
        unit=unit,
        figures=tuple(figures),
        samples=tuple(len(each) for each in samples),
        step=min(steps, default=0.0),
        constant=not steps,
    )


def _one(number: int, records: Sequence[Mapping[str, Any]]) -> Mapping[str, Any]:
    """The record of a claim in a run."""
    if not records:
        raise Refused(f"not measured in run {number}")
    if len(records) > 1:
        tests = " and ".join(dict.fromkeys(each["nodeid"] for each in records))
        raise Refused(
            f"measured {len(records)} times in run {number} ({tests}): a limit is for one thing; "
            "give each a name of its own"
        )
    (record,) = records
    if record["reason"] != MEASURED:
        raise Refused(f"run {number}: {record['verdict']}: {record['reason']}")
    if len(record["samples"]) < LEAST_SAMPLES:
        raise Refused(
            f"run {number} has {len(record['samples'])} samples in its {record['budget_s']:g} s, "
            f"and needs at least {LEAST_SAMPLES}: give it more time, `-- --claims-budget='5 min'`"
        )
    return record


def _in_unit(record: Mapping[str, Any], unit: str) -> list[float]:
    try:
        factor = conversion_factor(record["unit"], unit)
    except QuantityError as error:
        raise Refused(f"its unit changes from run to run: {error}") from None
    return [value * factor for value in record["samples"]]


_COLUMNS = ("claim", "figures of the runs", "limit", "margin")


def print_limits(
    documents: Sequence[dict[str, Any]], found: Gathered, limits: Sequence[Calibrated]
) -> None:
    """Print the limits, and why other claims have none.

    Args:
        documents: the records of the runs, at least two.
        found: their result.
        limits: the limits made from it.
    """
    if limits:
        print_table(_COLUMNS, [_row(each) for each in limits])
        tell()
    for line in [*_close(documents), *_notes(found)]:
        tell(line)


def _row(each: Calibrated) -> list[str]:
    *numbers, last = [figure.split(" ", 1) for figure in each.figures]
    figures = "  ".join([*(number for number, _ in numbers), " ".join(last)])
    floor = ", the least there is" if each.floored else ""
    return [each.name, figures, f"{SIGNS[each.side]} {each.limit}", f"{each.margin}{floor}"]


def _notes(found: Gathered) -> list[str]:
    lines = [_constant(each) for each in found.measured if each.constant]
    lines += [f"left alone: {name}: {why}" for name, why in found.left_alone.items()]
    lines += [f"refused: {name}: {why}" for name, why in found.refused.items()]
    return lines


def _close(documents: Sequence[dict[str, Any]]) -> list[str]:
    """A warning, if two runs were so close that they may have seen the machine in a single state."""
    begun = sorted(datetime.fromisoformat(document["started"]) for document in documents)
    least = min((b - a).total_seconds() for a, b in pairwise(begun))
    if least >= SPAN:
        return []
    return [
        f"two runs began only {least:.0f} s apart: a machine's level moves between minutes, so these limits "
        "may be too tight"
    ]


def _constant(each: Measured) -> str:
    value = f"{each.figures[0]:g} {each.unit}"
    return f"{each.name}: all {sum(each.samples)} samples are exactly {value}: is something cached or constant?"


_DIGITS = 4


@dataclass(frozen=True)
class Circumstance:
    """The circumstances that all limits of a calibration share.

    Attributes:
        date: the day of the last run, ISO 8601.
        machine: its fingerprint.
        noisy: what made it noisy; empty if it was quiet.
        version: pytest-vperf's.
        confidence: the probability that the figures of all of the next runs are within the limit.
        next_runs: their number.
    """

    date: str
    machine: Mapping[str, str]
    noisy: str
    version: str
    confidence: float
    next_runs: int


@dataclass(frozen=True)
class Calibrated:
    """A limit, as text.

    Attributes:
        name: the claim's.
        side: ``at_most`` or ``at_least``.
        limit: with its unit.
        figures: one for each run, in the same unit.
        samples: the number of samples of each run.
        spread: the spread between the runs.
        margin: the distance of the limit from the centre of the figures.
        floored: whether the margin is the least allowed one instead of one from the spread.
    """

    name: str
    side: Side
    limit: str
    figures: tuple[str, ...]
    samples: tuple[int, ...]
    spread: str
    margin: str
    floored: bool

    def entry(self, under: Circumstance) -> dict[str, Any]:
        """The criterion and the source, in the form of a threshold file."""
        made: dict[str, Any] = {
            "date": under.date,
            "figures": [*self.figures],
            "samples": [*self.samples],
            "spread": self.spread,
            "margin": self.margin,
            "confidence": f"{format_number(100 * under.confidence)} %",
            "next_runs": under.next_runs,
            **({"noisy": under.noisy} if under.noisy else {}),
            "vperf": under.version,
            "machine": dict(under.machine),
        }
        return {self.side: self.limit, "source": {"calibrated": made}}


def calibrated(measured: Measured, *, confidence: float, next_runs: int) -> Calibrated:
    """The limit of a claim.

    Args:
        measured: the figures of its runs.
        confidence: see `pytest_vperf.stats.prediction.predict`.
        next_runs: likewise.

    Raises:
        ValueError: there are too few runs.
    """
    found = predict(
        measured.figures,
        measured.side,
        next_runs=next_runs,
        confidence=confidence,
        step=measured.step,
    )
    limit = rounded(found.limit, measured.side)
    margin = abs(float(limit) / found.centre - 1)
    unit = measured.unit
    return Calibrated(
        name=measured.name,
        side=measured.side,
        limit=f"{limit} {unit}",
        figures=tuple(f"{figure:.6g} {unit}" for figure in measured.figures),
        samples=measured.samples,
        spread=f"{format_number(100 * found.spread)} %",
        margin=f"{format_number(float(f'{100 * margin:.3g}'))} %",
        floored=found.floored,
    )


def rounded(limit: float, side: Side) -> str:
    """A positive limit with four digits, rounded away from the figures: up for ``at_most``."""
    last = math.floor(math.log10(limit)) - _DIGITS + 1
    mode = ROUND_CEILING if side == "at_most" else ROUND_FLOOR
    number = Decimal(limit).quantize(Decimal(1).scaleb(last), rounding=mode)
    if not -8 <= last <= 12:
        return f"{number:.{_DIGITS - 1}e}"
    text = f"{number:f}"
    return text.rstrip("0").rstrip(".") if "." in text else text
