"""From the records of several runs to one figure of each run, for every claim that was measured in all of them."""

from __future__ import annotations

import itertools
from dataclasses import dataclass, field
from statistics import median
from typing import TYPE_CHECKING, Any

from pydantic_core import PydanticCustomError

from pytest_vperf.claims.scalars import parse_claim_name
from pytest_vperf.claims.survey import DIRECTIONS, LEFT_ALONE, MEASURED
from pytest_vperf.quantity import QuantityError, conversion_factor

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from pytest_vperf.stats.rule import Side

#: Samples of a run below which its median is hardly more than one sample.
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
        figures: of each run the median of its samples.
        samples: of each run how many.
        step: the smallest difference between two samples; 0 where all are equal.
        constant: whether they are.
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
    """What the runs brought, each claim in one of the three, in the order of first appearance.

    Attributes:
        measured: claims that a limit can be made for.
        left_alone: by claim, why it needs none.
        refused: by claim, why none can be made.
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
            "its samples have no direction: return Quantity(…, better='lower'), or 'higher'"
        )
    samples = [_in_unit(record, unit) for record in records]
    figures = [median(each) for each in samples]
    for number, figure in enumerate(figures, 1):
        if figure <= 0:
            raise Refused(
                f"run {number}: its median is {figure:g} {unit}, and a limit is more than 0"
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
            f"measured {len(records)} times in run {number} ({tests}): one limit is for one thing; "
            "give each a name of its own"
        )
    (record,) = records
    if record["reason"] != MEASURED:
        raise Refused(f"run {number}: {record['verdict']}: {record['reason']}")
    if len(record["samples"]) < LEAST_SAMPLES:
        raise Refused(
            f"run {number} has {len(record['samples'])} samples in its {record['budget_s']:g} s, "
            f"and {LEAST_SAMPLES} are the least: give it more time, `-- --claims-budget='5 min'`"
        )
    return record


def _in_unit(record: Mapping[str, Any], unit: str) -> list[float]:
    try:
        factor = conversion_factor(record["unit"], unit)
    except QuantityError as error:
        raise Refused(f"its unit changes from run to run: {error}") from None
    return [value * factor for value in record["samples"]]
