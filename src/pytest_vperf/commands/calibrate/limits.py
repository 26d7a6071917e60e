"""The limit of a claim as a threshold file has it: rounded away from the figures, with where it comes from."""

from __future__ import annotations

import json
import math
from dataclasses import dataclass
from decimal import ROUND_CEILING, ROUND_FLOOR, Decimal
from typing import TYPE_CHECKING

from pytest_vperf.quantity import format_number
from pytest_vperf.stats.prediction import predict

if TYPE_CHECKING:
    from collections.abc import Mapping

    from pytest_vperf.calibration.figures import Measured
    from pytest_vperf.stats.rule import Side

_DIGITS = 4


@dataclass(frozen=True)
class Circumstance:
    """Under what all limits of a calibration were made.

    Attributes:
        date: of the last run, ISO 8601.
        machine: its fingerprint.
        noisy: what made it noisy; empty where it was quiet.
        version: of pytest-vperf.
        confidence: the probability that the figures of all of the next runs are within the limit.
        next_runs: how many.
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
        figures: of each run, in the same unit.
        samples: of each run how many.
        spread: between the runs.
        margin: between the limit and the centre of the figures.
        floored: whether the margin is the least there is, and not from the spread.
    """

    name: str
    side: Side
    limit: str
    figures: tuple[str, ...]
    samples: tuple[int, ...]
    spread: str
    margin: str
    floored: bool

    def lines(self, under: Circumstance) -> list[str]:
        """The criterion and the source as lines of YAML, without indentation of their own."""
        machine = ", ".join(f"{key}: {_quoted(text)}" for key, text in under.machine.items())
        return [
            f"{self.side}: {self.limit}",
            "source:",
            "  calibrated:",
            f"    date: {_quoted(under.date)}",
            f"    figures: [{', '.join(self.figures)}]",
            f"    samples: [{', '.join(map(str, self.samples))}]",
            f"    spread: {self.spread}",
            f"    margin: {self.margin}",
            f"    confidence: {format_number(100 * under.confidence)} %",
            f"    next_runs: {under.next_runs}",
            *([f"    noisy: {_quoted(under.noisy)}"] if under.noisy else ()),
            f"    vperf: {_quoted(under.version)}",
            f"    machine: {{{machine}}}",
        ]


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
    """A positive limit with four digits, rounded to the good side of what it stands for: ``at_most`` up."""
    last = math.floor(math.log10(limit)) - _DIGITS + 1
    mode = ROUND_CEILING if side == "at_most" else ROUND_FLOOR
    number = Decimal(limit).quantize(Decimal(1).scaleb(last), rounding=mode)
    if not -8 <= last <= 12:
        return f"{number:.{_DIGITS - 1}e}"
    text = f"{number:f}"
    return text.rstrip("0").rstrip(".") if "." in text else text


def _quoted(text: str) -> str:
    """A text in double quotes; what JSON has is YAML too."""
    return json.dumps(text, ensure_ascii=False)
