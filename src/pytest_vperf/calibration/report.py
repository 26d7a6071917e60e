"""What ``vperf calibrate`` prints of its limits: a table, and a line for each claim that there is more to say of."""

from __future__ import annotations

from datetime import datetime
from itertools import pairwise
from typing import TYPE_CHECKING, Any

from pytest_vperf.claims.recording import SPAN
from pytest_vperf.console import print_table, tell

if TYPE_CHECKING:
    from collections.abc import Sequence

    from pytest_vperf.calibration.figures import Gathered, Measured
    from pytest_vperf.calibration.limits import Calibrated

_COLUMNS = ("claim", "figures of the runs", "limit", "margin")
_SIGNS = {"at_most": "≤", "at_least": "≥"}


def print_limits(
    documents: Sequence[dict[str, Any]], found: Gathered, limits: Sequence[Calibrated]
) -> None:
    """Print the limits, and what became of the other claims.

    Args:
        documents: the records of the runs, at least two.
        found: what they brought.
        limits: what was made of it.
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
    return [each.name, figures, f"{_SIGNS[each.side]} {each.limit}", f"{each.margin}{floor}"]


def _notes(found: Gathered) -> list[str]:
    lines = [_constant(each) for each in found.measured if each.constant]
    lines += [f"left alone: {name}: {why}" for name, why in found.left_alone.items()]
    lines += [f"refused: {name}: {why}" for name, why in found.refused.items()]
    return lines


def _close(documents: Sequence[dict[str, Any]]) -> list[str]:
    """That the runs saw one mood of the machine, where they may have."""
    begun = sorted(datetime.fromisoformat(document["started"]) for document in documents)
    least = min((b - a).total_seconds() for a, b in pairwise(begun))
    if least >= SPAN:
        return []
    return [
        f"two runs began only {least:.0f} s apart: the level of a machine moves between minutes, so these limits "
        "may be too near"
    ]


def _constant(each: Measured) -> str:
    value = f"{each.figures[0]:g} {each.unit}"
    return f"{each.name}: all {sum(each.samples)} samples are exactly {value}: is something cached or constant?"
