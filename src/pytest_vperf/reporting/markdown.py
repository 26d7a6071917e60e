"""A run as a page of Markdown, for a pull request: the answer, then what changed, then the rest, folded.

Every text of a target, an image or a record is shown literally, and the page has at most 60 kB: GitHub takes 65,536
characters as a comment, and something may be put around it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from pytest_vperf import __version__, foreign_text
from pytest_vperf.quantity import format_number
from pytest_vperf.reporting import baseline, gate, words
from pytest_vperf.reporting.ended import is_better
from pytest_vperf.results.record import of_sides

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from pytest_vperf.reporting.ended import EndedRun
    from pytest_vperf.results.record import ArmFigures, ClaimRecord

#: The most bytes of a page.
MOST = 60_000
#: Of them for what closes what is open, and for what says that something was left out.
_RESERVED = 2_000
#: Before anything was measured.
UNFINISHED = "**claims: this run has not ended**\n"
_CHANGES = (
    "| head | claim | of base | of head | change | pairs |",
    "|---|---|---:|---:|---:|---:|",
)
_OTHERS = ("| verdict | claim | measured | limit | n | target |", "|---|---|---:|---|---:|---|")
#: Figures with their intervals are no longer; sentences are.
_FIGURE = 30
_MARKS = {"refuted": "🔴", "holds": "🟢"}


class _Section(NamedTuple):
    """A part of a page.

    Attributes:
        title: of what is folded; empty: it is not.
        claims: a row each.
        notes: lines below the tables.
    """

    title: str
    claims: Sequence[ClaimRecord]
    notes: Sequence[str] = ()


def page(run: EndedRun) -> str:
    """The page.

    Args:
        run: the run.
    """
    shown = [each for each in run.claims if each["verdict"] in run.failing or is_better(each)]
    folded = [each for each in run.claims if each not in shown]
    sections = [_Section("", shown, list(_evidence(shown)))]
    if folded:
        count = "1 more claim" if len(folded) == 1 else f"{len(folded)} more claims"
        title = f"{count if shown else count.replace(' more', '')}: {_counts(folded)}"
        sections.append(_Section(title, folded, list(_reasons(folded))))
    sections.append(
        _Section("Machine and builds" if run.sides else "Machine", (), list(_about(run)))
    )
    lines = [f"**{foreign_text.markdown(run.answer)}**", ""]
    left = MOST - _RESERVED - sum(map(_size, lines))
    for section in sections:
        for line in _lines(section, left):
            lines.append(line)
            left -= _size(line)
    return "".join(f"{line}\n" for line in lines)


def _size(line: str) -> int:
    return len(line.encode()) + 1


def _lines(section: _Section, room: int) -> Iterator[str]:
    """A section's lines, with as many rows and notes as there is room for."""
    if section.title:
        yield f"<details><summary>{foreign_text.markdown(section.title)}</summary>"
        yield ""
    for heads, rows in (
        (_CHANGES, [_change(each) for each in section.claims if of_sides(each)]),
        (_OTHERS, [_other(each) for each in section.claims if not of_sides(each)]),
    ):
        if not rows:
            continue
        yield from heads
        kept = 0
        for row in rows:
            if (room := room - _size(row)) < 0:
                break
            kept += 1
            yield row
        if kept < len(rows):
            yield ""
            yield f"… and {len(rows) - kept} more, in the record."
        yield ""
    for number, note in enumerate(section.notes):
        if (room := room - _size(note)) < 0:
            yield f"- … and {len(section.notes) - number} more, in the record."
            break
        yield note
    if section.notes:
        yield ""
    if section.title:
        yield "</details>"
        yield ""


def _row(verdict: str, said: str, name: str, *cells: str) -> str:
    mark = _MARKS.get(verdict, "🟡")
    shown = [_whole(f"{mark} {said}"), foreign_text.markdown_code(name), *map(_whole, cells)]
    return f"| {' | '.join(shown)} |"


def _whole(text: str) -> str:
    """The text of a cell; a figure is not wrapped, as on a terminal."""
    shown = foreign_text.markdown(foreign_text.short(text))
    return shown.replace(" ", "&nbsp;") if len(text) <= _FIGURE else shown


def _change(record: ClaimRecord) -> str:
    head = record["sides"]["a"]
    name = record["name"] if head == "head" else f"{record['name']}, {head}"
    said = gate.verdict(record)
    if is_better(record):
        said = "faster" if gate.is_speed_of(record) else "better"
    return _row(
        record["verdict"],
        said,
        name,
        _median(record["arms"].get("b")),
        _median(record["arms"].get("a")),
        gate.change(record),
        str(record["n"]),
    )


def _median(arm: ArmFigures | None) -> str:
    """A side's figure alone: the interval that decides is that of the change, and a page is narrow."""
    return "-" if arm is None else f"{format_number(arm['estimate'])} {arm['unit']}".rstrip()


def _other(record: ClaimRecord) -> str:
    return _row(
        record["verdict"],
        words.verdict(record),
        record["name"] + words.on_side(record),
        words.measured(record),
        words.limit(record),
        str(record["n"]),
        record["target"] or "-",
    )


def _counts(records: Iterable[ClaimRecord]) -> str:
    counts: dict[str, int] = {}
    for each in records:
        word = gate.verdict(each) if of_sides(each) else words.OUTCOMES[each["verdict"]].category
        counts[word] = counts.get(word, 0) + 1
    return ", ".join(f"{count} {word}" for word, count in counts.items())


def _evidence(records: Iterable[ClaimRecord]) -> Iterator[str]:
    """Of what fails or changed, a line each: why, and the phases of its starts."""
    for each in records:
        told = [] if is_better(each) else [each["reason"]]
        if of_sides(each):
            told += [text for name, text in gate.evidence(each) if name == "phases"]
        elif (own := each["baseline"]) is not None and each["verdict"] == "refuted":
            told.insert(0, f"{baseline.verdict(each)} than the runs of {own['word']}")
        if text := "; ".join(foreign_text.short(each) for each in told if each):
            name = foreign_text.markdown_code(each["name"], in_table=False)
            yield f"- {name}: {foreign_text.markdown(text)}"


def _reasons(records: Iterable[ClaimRecord]) -> Iterator[str]:
    """Why nothing is known of a claim, once for each reason."""
    found: dict[str, list[str]] = {}
    for each in records:
        if each["verdict"] != "holds":
            found.setdefault(foreign_text.short(each["reason"]), []).append(each["name"])
    for reason, names in found.items():
        more = f" and {len(names) - 1} more" if len(names) > 1 else ""
        name = foreign_text.markdown_code(names[0], in_table=False)
        yield f"- {name}{more}: {foreign_text.markdown(reason)}"


def _about(run: EndedRun) -> Iterator[str]:
    from pytest_vperf.reporting.summary import machine_line

    if run.fingerprint:
        yield f"- machine: {foreign_text.markdown(foreign_text.short(machine_line(run.fingerprint)))}"
    for side, settings in run.sides.items():
        for key, own in settings.items():
            told = [str(own[name])[:64] for name in ("is", "version", "sha256") if own.get(name)]
            text = f"{side}: {key}={', '.join(told)}"
            yield f"- {foreign_text.markdown(foreign_text.short(text))}"
    yield f"- result: {run.word}, exit status {run.status}; pytest-vperf {__version__}, run {run.mark}, {run.started}"
