"""The phases of a start as a quantity: borders between them, on one clock, become parts that add up."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pytest_vperf.quantity import Quantity

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping


def startup_quantity(began: float, marks: Mapping[str, float], phases: Iterable[str]) -> Quantity:
    """The time of a start in ms, with its phases as parts, in order.

    A border that was not seen (a kernel that prints nothing at its start) joins two phases, e.g. ``firmware+kernel``.

    Args:
        began: the request, in seconds.
        marks: when each phase ended, on the same clock.
        phases: all of them, in order.
    """
    parts: list[tuple[str, float]] = []
    waiting: list[str] = []
    for phase in phases:
        waiting.append(phase)
        if phase in marks:
            ended = marks[phase]
            parts.append(("+".join(waiting), (ended - began) * 1e3))
            began, waiting = ended, []
    return Quantity(sum(value for _, value in parts), "ms", tuple(parts), better="lower")
