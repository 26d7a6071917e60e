"""The answer of a run with a baseline, in one line."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pytest_vperf.quantity import Quantity, is_speed

if TYPE_CHECKING:
    from collections.abc import Iterable

    from pytest_vperf.results.record import ClaimRecord, OfBaseline


def answer(records: Iterable[ClaimRecord], word: str) -> str:
    """``baseline main: 1 slower, 6 not slower (within 5 %), 1 undecided: 2 more runs of each would tell``.

    Args:
        records: of the run.
        word: what the baseline was named by.
    """
    compared = [(each, own) for each in records if (own := each["baseline"]) is not None]
    if not compared:
        return f"baseline {word}: nothing was compared with it"
    worse = "slower" if all(_is_speed(own) for _, own in compared) else "worse"
    tolerances = sorted({each["plan"].get("tolerance", 0.0) for each, _ in compared})
    within = " to ".join(
        dict.fromkeys(str(Quantity(each * 100, "%")) for each in (tolerances[0], tolerances[-1]))
    )
    undecided = "undecided"
    if missing := max(own["missing"] for _, own in compared):
        runs = "1 more run of each would" if missing == 1 else f"{missing} more runs of each would"
        undecided += f": {runs} tell"
    named = {
        "refuted": worse,
        "holds": f"not {worse} (within {within})",
        "inconclusive": undecided,
        "not comparable": "not comparable",
        "not measured": "without a baseline",
    }
    counts = {key: sum(each["verdict"] == key for each, _ in compared) for key in named}
    told = [f"{counts[key]} {name}" for key, name in named.items() if counts[key]]
    return f"baseline {word}: {', '.join(told)}"


def verdict(record: ClaimRecord) -> str:
    """What a refutation says of this build: ``slower``, or ``worse`` of what is no speed."""
    own = record["baseline"]
    return "slower" if own is not None and _is_speed(own) else "worse"


def _is_speed(own: OfBaseline) -> bool:
    return bool(own["unit"]) and is_speed(own["unit"])
