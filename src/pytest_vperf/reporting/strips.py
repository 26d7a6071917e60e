"""The samples of a claim as dots: a line for each arm on one axis, in the unit that was measured, and the limit.

An axis has 40 characters, so that a line fits a terminal of 80.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, NamedTuple

from pytest_vperf import foreign_text
from pytest_vperf.quantity import format_number
from pytest_vperf.results.record import judged, of_sides

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

    from pytest_vperf.results.record import ArmFigures, ClaimRecord
    from pytest_vperf.stats.rule import Arm

WIDTH = 40
LIMIT = "┊"
#: What stands for so many samples or more.
_DOTS = ((6, "●"), (3, "•"), (1, "·"), (0, "─"))
#: What a table of strips says below it.
LEGEND = (
    f"{_DOTS[2][1]} a sample, {_DOTS[1][1]} 3 or more, {_DOTS[0][1]} 6 or more, {LIMIT} the limit"
)


def arms(record: ClaimRecord) -> dict[str, ArmFigures]:
    """The figures of each arm of a comparison, by what it is called: ``base`` and ``head``, or ``first`` and
    ``second``."""
    own = record["arms"]
    return {_name(record, letter): own[letter] for letter in _order(record) if letter in own}


def _name(record: ClaimRecord, letter: Arm) -> str:
    return record["sides"][letter] if of_sides(record) else {"a": "first", "b": "second"}[letter]


def _order(record: ClaimRecord) -> tuple[Arm, Arm]:
    return ("b", "a") if of_sides(record) else ("a", "b")


class Strip(NamedTuple):
    """Samples on an axis.

    Attributes:
        name: of what: an arm, see `arms`; ``ratios`` of pairs; ``runs``, held against a baseline; else ``strip``.
        low: where the axis begins. dots: the axis. high: where it ends, with its unit.
    """

    name: str
    low: str
    dots: str
    high: str


def lines(strips: Iterable[Strip]) -> list[str]:
    """Strips below each other."""
    found = list(strips)
    width = max((len(each.low) for each in found), default=0)
    return [f"{each.low:>{width}} {each.dots} {each.high}" for each in found]


def strips(record: ClaimRecord) -> Iterator[Strip]:
    """A strip of each arm, and of a comparison the ratios of its pairs, or of runs to their baseline's median.

    The limit is on the strip of what it limits: of the samples, or of the ratios. There is no strip where all samples
    are equal, nor of a sweep, whose samples are of different loads.
    """
    seen = judged(record["observations"])
    values = {
        letter: [each["value"] for each in seen if each["arm"] == letter]
        for letter in _order(record)
    }
    if record["baseline"] is not None:
        yield from _on_one_axis({"runs": record["samples"]}, "", record["threshold"])
    if record["sweep"] or not seen:
        return
    unit = seen[0]["unit"]
    if not values["b"]:
        yield from _on_one_axis({"strip": values["a"]}, unit, record["threshold"])
    else:
        named = {_name(record, letter): values[letter] for letter in _order(record)}
        yield from _on_one_axis(named, unit)
        yield from _on_one_axis({"ratios": record["samples"]}, "", record["threshold"])


def _on_one_axis(
    values: Mapping[str, Sequence[float]], unit: str, limit: float | None = None
) -> Iterator[Strip]:
    everything = [each for own in values.values() for each in own]
    known = everything if limit is None else [*everything, limit]
    low, high = min(known, default=0.0), max(known, default=0.0)
    if not everything or not 0 < high - low < math.inf:
        return

    def place(value: float) -> int:
        return min(WIDTH - 1, math.floor((value - low) / (high - low) * WIDTH))

    end = foreign_text.line(f"{format_number(high)} {unit}")
    for name, own in values.items():
        counts = [0] * WIDTH
        for value in own:
            counts[place(value)] += 1
        dots = [next(dot for least, dot in _DOTS if count >= least) for count in counts]
        if limit is not None:
            dots[place(limit)] = LIMIT
        yield Strip(name, format_number(low), f"├{''.join(dots)}┤", end)
