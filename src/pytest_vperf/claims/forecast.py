"""How long a claim is expected to take, from the pace so far; a forecast is noisy, and treated as such."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from pytest_vperf.stats.plain import count

if TYPE_CHECKING:
    from pytest_vperf.stats.rule import State

#: From this many samples (of a comparison: pairs) on a forecast is shown, and from twice as many it may end a claim.
SHOWN_FROM = 8
BELIEVED_FROM = 16


@dataclass(frozen=True)
class Need:
    """What a verdict is expected to need.

    Attributes:
        samples: samples or pairs in all.
        seconds: sampling time in all.
        hopeless: whether it is more than the time that is left even if the truth is kinder than it seems.
    """

    samples: int
    seconds: float
    hopeless: bool


def need(state: State, spent: float, budget: float) -> Need | None:
    """What a verdict needs; ``None`` where that is not known, or no more than what was taken.

    Args:
        state: of the judge.
        spent: seconds of sampling so far.
        budget: seconds of sampling allowed.
    """
    if state.forecast is None or state.samples < SHOWN_FROM or state.forecast <= state.samples:
        return None
    pace = spent / state.samples
    at_best = state.forecast if state.forecast_at_best is None else state.forecast_at_best
    rest = pace * (at_best - state.samples)
    hopeless = state.samples >= BELIEVED_FROM and rest > max(budget - spent, 0.0)
    return Need(state.forecast, pace * state.forecast, hopeless)


def part_of_need(state: State, noun: str) -> str:
    """``8 of about 9 pairs judged``; empty where it is not known how many a verdict needs, or they are there.

    Args:
        state: of the judge.
        noun: what it counts, ``pair`` or ``sample``: of samples taken, a pair has two, and warm-up is not judged.
    """
    if state.forecast is None or state.forecast <= state.samples:
        return ""
    return f"{state.samples} of about {count(roughly(state.forecast), noun)} judged"


def roughly(number: int) -> int:
    """As exact as a forecast is: 1594 is 1600."""
    return int(float(f"{number:.2g}"))


def rough_time(seconds: float) -> str:
    """``0.4 s``, ``40 s``, ``7 min``, ``3 h``: as exact as a forecast is."""
    if seconds < 1:
        return f"{seconds:.1g} s"
    if seconds < 120:
        return f"{seconds:.0f} s"
    return f"{seconds / 60:.0f} min" if seconds < 7200 else f"{seconds / 3600:.0f} h"
