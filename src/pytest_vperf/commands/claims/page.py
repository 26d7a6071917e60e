"""The table as a page of Markdown: what was judged on hardware that fits first, then the rest by row.

Texts of records are foreign, and are shown literally. No cell is wider than `WIDEST`: reasons are footnotes, and so
is whatever would be longer.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from pytest_vperf.commands.claims.output import Machines, counts
from pytest_vperf.foreign_text import markdown as _text
from pytest_vperf.foreign_text import markdown_code as _code
from pytest_vperf.foreign_text import short
from pytest_vperf.thresholds.match import ANY

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from pytest_vperf.commands.claims.lines import Line
    from pytest_vperf.commands.claims.output import Part
    from pytest_vperf.commands.claims.rows import Row
    from pytest_vperf.commands.pictures import Pictures
    from pytest_vperf.thresholds.profile import HardwareProfile

#: The most characters of a cell; a wider table cannot be read.
WIDEST = 120
_COLUMNS = (
    *("last verdict", "claim", "limit", "measured", "n", "on", "date", "source", "test", "notes"),
)
_MEANING = (
    "*Limit* is what the threshold file says, *source* the document and section it is from. *On* is what was "
    "measured, with the lab. On hardware that a figure is not of, a machine of another profile or an emulated one, a "
    "verdict is *not comparable*. The *test* of a measured claim is the one that ran; of others it is the one whose "
    "text has this form of a name. *Notes* say what stands against a verdict, and in what the test differs from the "
    "document."
)
_WORST_FIRST = ("refuted", "inconclusive", "holds")


class Footnotes:
    """Numbers texts in the order of their first use; equal ones are one footnote."""

    def __init__(self) -> None:
        self._numbers: dict[str, int] = {}

    def mark(self, text: str) -> str:
        """``[^3]``, for a text that is Markdown."""
        return f"[^{self._numbers.setdefault(text, len(self._numbers) + 1)}]"

    def cell(self, text: str) -> str:
        """A cell with this text, which is Markdown, or with its mark if it is too wide."""
        return text if len(text) <= WIDEST else self.mark(text)

    def written(self) -> list[str]:
        """A line for each."""
        return [f"[^{number}]: {_no_link(text)}" for text, number in self._numbers.items()]


#: What Markdown without footnotes would take for the definition of a link: a word, and a title in quotes or none.
_LINK = re.compile(r"\S+(\s+[\"'(].*[\"')])?\s*")


def _no_link(text: str) -> str:
    return f"<span></span>{text}" if _LINK.fullmatch(text) else text


def markdown_page(
    lines: Sequence[Line],
    parts: Sequence[Part],
    profiles: Mapping[str, HardwareProfile],
    command: str,
    pictures: Pictures | None = None,
) -> str:
    """The Markdown page.

    Args:
        lines: of the table.
        parts: by row and profile; if empty, the rest is ordered by profile.
        profiles: the profiles by name.
        command: the command that makes the page, quoted for a shell.
        pictures: that verdicts link to.
    """
    machines, notes = Machines(lines), Footnotes()
    text = ["# Claims, tests, thresholds, last verdicts", ""]
    text += [f"Made by {_code(command)}; a change by hand is lost.", ""]
    text += [f"{_text(counts(lines))}.", ""]
    judged = sorted(
        (line for line in lines if line.is_judged),
        key=lambda line: _WORST_FIRST.index(line.verdict),
    )
    if judged:
        rows = (_cells(line, machines, notes, pictures, with_profile=True) for line in judged)
        text += ["## Judged on hardware that fits", ""]
        text += [*_table(_with_profile(_COLUMNS), rows, notes), ""]
    text += [_MEANING, ""]
    if described := machines.described():
        text += ["Measured on:", "", *(f"- machine {_text(each)}" for each in described), ""]
    rest = [line for line in lines if not line.is_judged]
    if parts:
        text += ["## Row by row", "", *_matrix(parts, notes)]
        text += ["", "What was not judged on hardware that fits:", ""]
        text += _by_row(parts, rest, machines, notes, pictures)
    else:
        text += _by_profile(rest, profiles, machines, notes, pictures)
    return "\n".join([*text, *notes.written(), ""])


def _by_row(
    parts: Sequence[Part],
    rest: Sequence[Line],
    machines: Machines,
    notes: Footnotes,
    pictures: Pictures | None,
) -> list[str]:
    text = []
    for row in {part.row.name: part.row for part in parts}.values():
        own = [line for line in rest if row.has(line.entry or line.name)]
        if own:
            cells = (_cells(line, machines, notes, pictures, with_profile=True) for line in own)
            text += [f"### {_text(row.name)}: {_text(row.claim)}", ""]
            text += [*_table(_with_profile(_COLUMNS), cells, notes), ""]
    return text


def _by_profile(
    rest: Sequence[Line],
    profiles: Mapping[str, HardwareProfile],
    machines: Machines,
    notes: Footnotes,
    pictures: Pictures | None,
) -> list[str]:
    text = []
    for profile in dict.fromkeys(line.profile for line in rest):
        text += [f"## {_text(profile or 'no profile')}", ""]
        if summary := profiles[profile].summary if profile in profiles else "":
            text += [f"For {_text(summary)}.", ""]
        own = [line for line in rest if line.profile == profile]
        cells = (_cells(line, machines, notes, pictures) for line in own)
        text += [*_table(_COLUMNS, cells, notes), ""]
    return text


def _with_profile(cells: Sequence[str], profile: str = "profile") -> list[str]:
    return [*cells[:2], profile, *cells[2:]]


def _cells(
    line: Line,
    machines: Machines,
    notes: Footnotes,
    pictures: Pictures | None,
    *,
    with_profile: bool = False,
) -> list[str]:
    told = list(map(_text, line.reasons)) if line.last else []
    if line.entry and line.entry != line.name:
        told.append(f"of {_code(line.entry)}")
    if line.threshold and (unknown := line.threshold.criterion.reason):
        told.append(_text(f"{line.limit}: {short(unknown)}"))
    if line.deviations:
        told.append(f"the test differs: {_text(line.deviations)}")
    record = line.last.measured if line.last else None
    verdict = line.verdict or "never measured"
    if pictures and record:
        verdict = pictures.link(verdict, line.name, record.figures)
    cells = [
        verdict,
        _code(line.name),
        _text(line.limit),
        _text(record.figures) if record else "-",
        str(record.claim.n) if record else "-",
        _text(machines.on(record)) or "-" if record else "-",
        str(record.when.date()) if record else "-",
        _text(line.source) or "-",
        "<br>".join(map(_code, line.tests)) or "none names it",
        " ".join(map(notes.mark, dict.fromkeys(told))) or "-",
    ]
    return _with_profile(cells, _text(line.profile) or "-") if with_profile else cells


def _matrix(parts: Sequence[Part], notes: Footnotes) -> list[str]:
    profiles = sorted({part.profile for part in parts}, key=lambda name: (name == ANY, name))
    rows: dict[str, Row] = {part.row.name: part.row for part in parts}
    cells = {(part.row.name, part.profile): f"{part.judged} of {part.claims}" for part in parts}
    table = _table(
        ("row", "claim", *map(_text, profiles)),
        (
            [_text(name), _text(row.claim), *(cells.get((name, each), "") for each in profiles)]
            for name, row in rows.items()
        ),
        notes,
    )
    return ["How many claims were judged on hardware that fits, of how many:", "", *table]


def _table(columns: Sequence[str], rows: Iterable[Sequence[str]], notes: Footnotes) -> list[str]:
    lines = [columns, ["---"] * len(columns), *rows]
    return [f"| {' | '.join(map(notes.cell, cells))} |" for cells in lines]
