"""Claims that fail a run, on the lines of their tests: as GitHub's workflow commands, as GitLab's code quality."""

from __future__ import annotations

import hashlib
from typing import TYPE_CHECKING

from pytest_vperf import foreign_text
from pytest_vperf.reporting import baseline, gate, words
from pytest_vperf.results.record import of_sides

if TYPE_CHECKING:
    from collections.abc import Iterator

    from pytest_vperf.reporting.ended import EndedRun
    from pytest_vperf.results.record import ClaimRecord

#: What GitHub shows of one step and kind; it drops the others without a word.
MOST = 10


def _said(record: ClaimRecord) -> str:
    """What fails, in one line: ``start.a is slower on head than on base: +12 % [+10.1, +13.8]``."""
    name = record["name"]
    if record["verdict"] != "refuted":
        return f"{name}: {record['verdict']}: {record['reason']}"
    if of_sides(record):
        head, base = record["sides"]["a"], record["sides"]["b"]
        return f"{name} is {gate.verdict(record)} on {head} than on {base}: {gate.change(record)}"
    if (own := record["baseline"]) is not None:
        return f"{name} is {baseline.verdict(record)} than the runs of {own['word']}: {gate.change(record)}"
    return f"{name} is refuted: measured {words.measured(record)}, claimed {words.limit(record)}"


def _failing(run: EndedRun) -> list[ClaimRecord]:
    """The claims that fail the run, the refuted ones first."""
    found = [each for each in run.claims if each["verdict"] in run.failing]
    return sorted(found, key=lambda each: each["verdict"] != "refuted")


def github(run: EndedRun) -> Iterator[str]:
    """GitHub's workflow commands, a line each: ``::error file=…,line=…,title=…::…``.

    Source: "Workflow commands for GitHub Actions", whose toolkit escapes ``%``, ends of lines, and in properties
    ``:`` and ``,`` (toolkit, packages/core/src/command.ts).
    """
    counts = {"error": 0, "warning": 0}
    failing = _failing(run)
    for record in failing:
        kind = "error" if record["verdict"] == "refuted" else "warning"
        counts[kind] += 1
        if counts[kind] > MOST:
            continue
        place = run.place(record)
        where = f"file={_property(place.file)},line={place.line},title={_property(record['name'])}"
        yield f"::{kind} {where}::{data(foreign_text.short(_said(record)))}"
    if (more := sum(max(0, count - MOST) for count in counts.values())) > 0:
        yield f"::notice title=pytest-vperf::{more} more claims fail: see the summary"


def data(text: str) -> str:
    """The text of a workflow command, which ends with the line."""
    return text.replace("%", "%25").replace("\r", "%0D").replace("\n", "%0A")


def _property(text: str) -> str:
    return data(foreign_text.short(text)).replace(":", "%3A").replace(",", "%2C")


def code_quality(run: EndedRun) -> str:
    """GitLab's code quality report: JSON, of which a merge request shows each entry at its line.

    Source: GitLab's documentation, "Code Quality", section "Code Quality report format".
    """
    found = []
    for record in _failing(run):
        place = run.place(record)
        same = f"{record['nodeid']}\0{record['name']}\0{sorted(record['sides'].items())}"
        found.append(
            {
                "description": foreign_text.line(_said(record)),
                "check_name": record["name"],
                "fingerprint": hashlib.sha256(same.encode("utf-8", "backslashreplace")).hexdigest(),
                "severity": "major" if record["verdict"] == "refuted" else "minor",
                "location": {"path": place.file, "lines": {"begin": place.line}},
            }
        )
    return foreign_text.to_json(found, indent=2) + "\n"
