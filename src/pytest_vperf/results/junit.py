"""What of a claim goes into JUnit XML: properties of its test case."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pytest_vperf import foreign_text

if TYPE_CHECKING:
    from collections.abc import Iterator

    from pytest_vperf.results.record import ClaimRecord


def properties(record: ClaimRecord) -> Iterator[tuple[str, object]]:
    """The properties ``vperf.NAME.KEY`` of a claim; what is not known is left out, never written as 0."""
    prefix = f"vperf.{foreign_text.line(record['name'])}"
    interval = record["interval"]
    values: dict[str, object] = {
        "verdict": record["verdict"],
        "reason": record["reason"],
        "cause": record["cause"],
        "estimate": record["estimate"],
        "low": interval[0] if interval else None,
        "high": interval[1] if interval else None,
        "unit": record["unit"],
        "threshold": record["threshold"],
        "criterion": record["criterion"],
        "samples": record["n"],
        "sessions": len(record["sessions"]) or None,
        "target": record["target"],
        "profile": record["hardware"]["profile"],
    }
    for key, value in values.items():
        if value is not None and value != "":
            yield f"{prefix}.{key}", foreign_text.lines(value) if isinstance(value, str) else value
