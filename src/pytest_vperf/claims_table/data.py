"""The table as data for programs, and the small file in which last verdicts are kept."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from pytest_vperf import __version__
from pytest_vperf.claims_table.lines import unknown_reason
from pytest_vperf.claims_table.shape import FORMAT, Kept
from pytest_vperf.foreign_text import printable_json, short, to_json

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from pytest_vperf.claims_table.lines import Line
    from pytest_vperf.claims_table.measured import Measured
    from pytest_vperf.claims_table.shape import RunPart


def document(lines: Iterable[Line]) -> str:
    """The table as JSON; what is not known is ``null`` or empty, never 0."""
    content = {"format": FORMAT, "vperf": __version__, "table": [_line(line) for line in lines]}
    return to_json(content, indent=1) + "\n"


def kept(lines: Iterable[Line]) -> str:
    """The runs of the last verdicts with these alone, which can be read again as a record."""
    claims: dict[int, tuple[RunPart, list[Measured]]] = {}
    for line in lines:
        for each in (line.last.measured, line.last.later) if line.last else ():
            if each is not None:
                own = claims.setdefault(id(each.run), (each.run, []))[1]
                if each not in own:
                    own.append(each)
    runs = [run.model_copy(update={"claims": _shortened(own)}) for run, own in claims.values()]
    runs.sort(key=lambda run: run.started)
    return printable_json(Kept(vperf=__version__, runs=runs).model_dump_json(indent=1)) + "\n"


def _shortened(records: Sequence[Measured]) -> list[Any]:
    """The claims in the order of time; of an error its first line, for the rest is about one run's console."""
    return [
        each.claim.model_copy(update={"reason": short(each.claim.reason.partition("\n")[0])})
        for each in sorted(records, key=lambda each: each.when)
    ]


def _line(line: Line) -> dict[str, Any]:
    threshold = line.threshold
    source = threshold.source if threshold else None
    return {
        "profile": line.profile,
        "claim": line.name,
        "entry": line.entry,
        "limit": line.limit,
        "unknown": unknown_reason(threshold) if threshold else "",
        "summary": threshold.summary if threshold else "",
        "source": str(source) if source else "",
        "tests": list(line.tests),
        "last": _last(line),
        "why": line.why,
    }


def _last(line: Line) -> dict[str, Any] | None:
    if line.last is None:
        return None
    record, claim = line.last.measured, line.last.measured.claim
    keys = ("verdict", "estimate", "interval", "unit", "n", "target", "started_at")
    return {
        **{key: getattr(claim, key) for key in keys},
        "places": list(record.places),
        "machine": record.machine.name,
        "matches": claim.hardware.matches,
    }
