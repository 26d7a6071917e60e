"""How verdicts and a record's figures are displayed, in tables, failure texts and elsewhere."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from pytest_vperf.quantity import format_number
from pytest_vperf.thresholds.match import EVERYWHERE

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from pytest_vperf.results.record import ArmFigures, ClaimRecord


class Outcome(NamedTuple):
    """How pytest shows a verdict: its category in the last line, its letter and its word."""

    category: str
    letter: str
    word: str


#: By verdict, the gravest last: a test with several claims is shown with its gravest verdict.
OUTCOMES: Mapping[str, Outcome] = {
    "holds": Outcome("held", "H", "HELD"),
    "not comparable": Outcome("not comparable", "C", "NOT COMPARABLE"),
    "not measured": Outcome("not measured", "N", "NOT MEASURED"),
    "inconclusive": Outcome("inconclusive", "I", "INCONCLUSIVE"),
    "refuted": Outcome("refuted", "R", "REFUTED"),
}
CATEGORIES = frozenset(outcome.category for outcome in OUTCOMES.values())


def is_of_other_hardware(record: ClaimRecord) -> bool:
    """Whether the claim was judged by a profile, named for the run, that this machine does not fit."""
    hardware = record["hardware"]
    foreign = not hardware["matches"] and hardware["profile"] not in ("", *EVERYWHERE)
    return foreign and record["verdict"] in ("holds", "refuted", "inconclusive")


def verdict(record: ClaimRecord) -> str:
    """``holds``; ``holds (not type1)`` for one by a profile of other hardware."""
    if not is_of_other_hardware(record):
        return record["verdict"]
    return f"{record['verdict']} (not {record['hardware']['profile']})"


def measured(record: ClaimRecord) -> str:
    """``376.2 ms [370.1, 382.4]``, see `estimated`; a ratio has no unit; ``-`` if nothing was measured."""
    if record["estimate"] is None:
        samples = record["samples"]
        return f"{format_number(samples[0])} {record['unit']}".rstrip() if samples else "-"
    return estimated(record["estimate"], record["unit"], record["interval"] or (None, None))


def estimated(
    value: float,
    unit: str,
    interval: Sequence[float | None],
    number: Callable[[float], str] = format_number,
) -> str:
    """An estimate with its interval; one with one end is ``1.01 [≤ 1.02]`` or ``1.01 [≥ 0.98]``.

    Args:
        value: the estimate.
        unit: of it; empty for a ratio.
        interval: its ends, each ``None`` where there is none.
        number: formats a number.
    """
    text = f"{number(value)} {unit}".rstrip()
    low, high = (None if end is None else number(end) for end in interval)
    if low is not None and high is not None:
        return f"{text} [{low}, {high}]"
    if high is not None:
        return f"{text} [≤ {high}]"
    return text if low is None else f"{text} [≥ {low}]"


def figures(arm: ArmFigures | None) -> str:
    """An arm in its own unit, ``172.2 ms [170.1, 175.8]``; ``-`` if nothing was measured."""
    return "-" if arm is None else estimated(arm["estimate"], arm["unit"], arm["interval"])


def gap(record: ClaimRecord) -> str:
    """The distance of the estimate from the limit: ``+120.3 ms (+30.1 %)``; empty if either is unknown."""
    if record["gap"] is None:
        return ""
    text = f"{signed(record['gap'])} {record['unit']}".rstrip()
    percent = record["gap_percent"]
    return text if percent is None else f"{text} ({signed(percent)} %)"


def signed(value: float) -> str:
    """A number with its sign: ``+29.8``, ``-3``, ``+0``."""
    text = format_number(value)
    return text if text.startswith("-") else f"+{text}"


def limit(record: ClaimRecord) -> str:
    """``≤ 400 ms``; ``-`` if there is none."""
    return "-" if record["threshold"] is None else record["criterion"]


def on_side(record: ClaimRecord) -> str:
    """`` (on head)`` for what a gate judged on one side, `` (on h1)`` for a machine of a fleet; else empty."""
    sides = set(record["sides"].values())
    places = [*(sides if len(sides) == 1 else ()), record["machine"].get("name", "")]
    told = ", ".join(filter(None, places))
    return f" (on {told})" if told else ""
