"""The text of a refuted claim: a short table that says all, so that nobody has to look further."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from pytest_vperf import foreign_text
from pytest_vperf.quantity import format_number
from pytest_vperf.reporting import words

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from pytest_vperf.results.record import ClaimRecord

#: At most this many samples are printed; all are in the JSON file.
_SHOWN = 12


def failure_text(record: ClaimRecord, fingerprint: Mapping[str, Any] | None) -> str:
    """The first line says it in one sentence, the rows below are its evidence."""
    rows = [(name, foreign_text.line(text)) for name, text in _rows(record, fingerprint)]
    width = max(len(name) for name, _ in rows)
    first = (
        f"{record['name']} is refuted: measured {_estimate(record)}, claimed {words.limit(record)}"
    )
    first = foreign_text.line(first)
    return "\n".join([first, *(f"  {name:{width}}  {text}" for name, text in rows)])


def _estimate(record: ClaimRecord) -> str:
    if record["estimate"] is None:
        return "-"
    return f"{format_number(record['estimate'])} {record['unit']}".rstrip()


def _rows(record: ClaimRecord, fingerprint: Mapping[str, Any] | None) -> Iterator[tuple[str, str]]:
    yield "claim", record["name"] + (f": {record['summary']}" if record["summary"] else "")
    confidence = record["confidence"]
    level = f" at {100 * confidence:.4g} % confidence" if confidence else ""
    yield "measured", f"{record['statistic']} {words.measured(record)}{level}"
    yield "limit", f"{record['statistic']} {words.limit(record)}"
    yield "gap", words.gap(record)
    yield "samples", _samples(record)
    if record["target"]:
        yield "target", record["target"]
    yield "why", record["reason"]
    if record["source"]:
        yield "source", record["source"]
    hardware = record["hardware"]
    yield "profile", f"{hardware['profile']} ({hardware['location']})"
    if not hardware["matches"]:
        yield "differs", "; ".join(hardware["mismatches"])
    if fingerprint:
        yield "machine", machine_line(fingerprint)
    for warning in record["warnings"]:
        yield "note", warning


def _samples(record: ClaimRecord) -> str:
    values = record["samples"]
    shown = ", ".join(format_number(value) for value in values[:_SHOWN])
    more = f", … {len(values) - _SHOWN} more" if len(values) > _SHOWN else ""
    unit = f" {record['unit']}" if record["unit"] else ""
    return f"{len(values)}: {shown}{more}{unit}"


def machine_line(fingerprint: Mapping[str, Any]) -> str:
    """The machine in one line: what decides about speed; the whole fingerprint is in the JSON file."""
    parts = (
        ("", "cpu_model", ""),
        ("", "logical_cpus", " CPUs"),
        ("", "memory", ""),
        ("kernel ", "kernel", ""),
        ("hypervisor ", "hypervisor", ""),
    )
    known = [
        f"{before}{fingerprint[key]}{after}" for before, key, after in parts if key in fingerprint
    ]
    return ", ".join([*known, *(["emulated"] if fingerprint.get("emulated") == "yes" else [])])
