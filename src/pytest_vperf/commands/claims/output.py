"""The table as a page of Markdown. Texts of records come from anywhere, and must stay texts."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pytest_vperf.claims.consistency import ANY
from pytest_vperf.claims_table.lines import unknown_reason
from pytest_vperf.claims_table.machines import Machines
from pytest_vperf.claims_table.terminal import counts
from pytest_vperf.foreign_text import markdown as _text
from pytest_vperf.foreign_text import markdown_code as _code
from pytest_vperf.foreign_text import short

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from pytest_vperf.claims.thresholds import HardwareProfile
    from pytest_vperf.claims_table.lines import Line
    from pytest_vperf.claims_table.overview import Part
    from pytest_vperf.claims_table.rows import Row

_COLUMNS = (
    *("claim", "limit", "source", "test", "last verdict", "measured", "n", "on", "date", "why"),
)
_MEANING = (
    "*Limit* is what the threshold file says, *source* the document and section it is from. The *test* of a measured "
    "claim is the one that ran; of others it is the one whose text has this form of a name. *On* is what was "
    "measured, with the lab and `emulated` where times say nothing about the hardware. *Why* says what stands "
    "against a verdict: a reason of the run, another machine than the profile's, another limit then."
)


def page(
    lines: Sequence[Line],
    parts: Sequence[Part],
    profiles: Mapping[str, HardwareProfile],
    command: str,
) -> str:
    """The page.

    Args:
        lines: of the table.
        parts: of rows and profiles; empty leaves that table out.
        profiles: by name.
        command: by which the page is made, as a shell has it.
    """
    machines = Machines(lines)
    text = ["# Claims, tests, thresholds, last verdicts", ""]
    text += [f"Made by {_code(command)}; a change by hand is lost.", "", _MEANING, ""]
    text += [f"{_text(counts(lines))}.", ""]
    if described := machines.described():
        text += ["Measured on:", "", *(f"- machine {_text(each)}" for each in described), ""]
    if parts:
        text += ["## Row by row", "", *_matrix(parts), "", *_parts(parts), ""]
    for profile in dict.fromkeys(line.profile for line in lines):
        text += [f"## {_text(profile or 'no profile')}", ""]
        if summary := profiles[profile].summary if profile in profiles else "":
            text += [f"For {_text(summary)}.", ""]
        own = [line for line in lines if line.profile == profile]
        text += [*_table(_COLUMNS, (_cells(line, machines) for line in own)), ""]
    return "\n".join(text)


def _cells(line: Line, machines: Machines) -> list[str]:
    name = _code(line.name)
    if line.entry and line.entry != line.name:
        name += f" of {_code(line.entry)}"
    tests = "<br>".join(_code(each) for each in line.tests) or "-"
    limit, source = _text(line.limit), _text(line.source) or "-"
    if line.threshold and (unknown := unknown_reason(line.threshold)):
        limit += f": {_text(short(unknown))}"
    if line.last is None:
        return [name, limit, source, tests, "-", "-", "-", "-", "-", _text(line.why)]
    record = line.last.measured
    return [
        *(name, limit, source, tests),
        record.claim.verdict,
        _text(record.figures),
        str(record.claim.n),
        _text(machines.on(record)) or "-",
        str(record.when.date()),
        _text(line.why) or "-",
    ]


def _matrix(parts: Sequence[Part]) -> list[str]:
    profiles = sorted({part.profile for part in parts}, key=lambda name: (name == ANY, name))
    rows: dict[str, Row] = {part.row.name: part.row for part in parts}
    cells = {(part.row.name, part.profile): f"{part.measured} of {part.claims}" for part in parts}
    table = _table(
        ("row", "claim", *map(_text, profiles)),
        (
            [_text(name), _text(row.claim), *(cells.get((name, each), "") for each in profiles)]
            for name, row in rows.items()
        ),
    )
    return ["How many claims were measured, of how many:", "", *table]


def _parts(parts: Sequence[Part]) -> list[str]:
    table = _table(
        ("row", "profile", "measured", "on, and verdicts", "not measured"),
        (
            [
                *(_text(part.row.name), _text(part.profile), f"{part.measured} of {part.claims}"),
                "<br>".join(map(_text, part.on)) or "-",
                "<br>".join(map(_text, part.missing)) or "-",
            ]
            for part in parts
        ),
    )
    return ["On what, with which verdicts, and why the others were not:", "", *table]


def _table(columns: Sequence[str], rows: Iterable[Sequence[str]]) -> list[str]:
    lines = [columns, ["---"] * len(columns), *rows]
    return [f"| {' | '.join(cells)} |" for cells in lines]
