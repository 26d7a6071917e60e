"""The gallery on a terminal and as a page of Markdown. Texts of records are foreign, and are shown literally."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING

from rich.text import Text

from pytest_vperf.commands.claims.lines import limit
from pytest_vperf.commands.claims.output import Machines
from pytest_vperf.commands.claims.records import VERSIONS
from pytest_vperf.commands.gallery.exhibits import by_project
from pytest_vperf.foreign_text import line as one_line
from pytest_vperf.foreign_text import markdown as _text
from pytest_vperf.foreign_text import markdown_code as _code
from pytest_vperf.reporting.console import print_table, tell

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from pytest_vperf.commands.claims.lines import Line
    from pytest_vperf.commands.gallery.exhibits import Exhibit
    from pytest_vperf.commands.pictures import Pictures

#: How the claims are run, in any folder.
COMMAND = "pytest --pyargs pytest_vperf.published -m gallery"
_STYLES = {"holds": "green", "refuted": "bold red"}


def show(every: Sequence[Exhibit]) -> None:
    """Print a table of all claims by project, then what is missing for which, and the command that runs them."""
    machines = Machines(line for each in every for line in each.lines)
    for project, own in by_project(every).items():
        tell(one_line(project))
        print_table(("here", "claim; last verdict"), [_row(each, machines) for each in own])
        tell()
    missing: dict[str, tuple[str, int]] = {}
    for each in every:
        for one in each.missing:
            missing[one.program] = one.remedy, missing.get(one.program, ("", 0))[1] + 1
    for program, (remedy, number) in missing.items():
        tell(f"{program} is not installed ({_claims(number)}){f': {remedy}' if remedy else ''}")
    for machine in machines.described():
        tell(f"machine {machine}")
    tell(counts(every))
    tell(f"to judge them: {COMMAND}")


def _row(each: Exhibit, machines: Machines) -> tuple[Text, Text]:
    ready = Text("no", "yellow") if each.missing else Text("yes", "green")
    told = Text(each.threshold.summary or each.threshold.name)
    told.append(f"\n{each.threshold.name}  {limit(each.threshold)}", "dim")
    if each.source.contested_by:
        told.append(f"\ncontested: {one_line(each.source.contested_by)}")
    for line in each.lines:
        assert line.last is not None
        verdict = line.verdict
        told.append("\n")
        told.append(verdict, _STYLES.get(verdict, "yellow"))
        told.append(f" {one_line(_figures(line, machines))}")
    return ready, told


def _figures(line: Line, machines: Machines) -> str:
    """``0.417 [≤ 0.4835], M2, 2026-11-25``; without a measurement, why there is none."""
    assert line.last is not None
    record = line.last.measured
    figures = record.figures if record.was_measured else record.reason
    return ", ".join(
        filter(None, [figures, machines.label(record.machine), str(record.when.date())])
    )


def counts(every: Sequence[Exhibit]) -> str:
    """``claims: 44 of 13 projects; this machine has the programs for 42; 40 measured: 30 holds, …``."""
    told = f"claims: {len(every)} of {len(by_project(every))} projects"
    told += f"; this machine has the programs for {sum(not each.missing for each in every)}"
    return f"{told}; {_measured(every)}"


def _measured(every: Sequence[Exhibit]) -> str:
    ran = [each for each in every if each.measured]
    verdicts = Counter(verdict for each in ran for verdict in each.verdicts)
    detail = ", ".join(f"{number} {verdict}" for verdict, number in verdicts.most_common())
    return f"{len(ran)} measured{f': {detail}' if detail else ''}"


def _claims(number: int) -> str:
    return f"{number} claim{'s' if number != 1 else ''}"


_INTRODUCTION = """\
Sentences that projects publish about themselves, each as a test, and what came out on an ordinary machine. A verdict
is about that machine, with the versions there; *measured* has the interval that the error bounds of the run allow.
[How a claim is judged](verdicts.md). To judge them on yours:

```console
$ pip install pytest-vperf
$ {command}
```
"""


def page(every: Sequence[Exhibit], command: str, pictures: Pictures | None = None) -> str:
    """The page: the refuted and the contested first, then the others by verdict, then the sources.

    Args:
        every: the exhibits.
        command: the command that makes the page, quoted for a shell.
        pictures: that verdicts link to.
    """
    machines = Machines(line for each in every for line in each.lines)
    text = ["# The gallery", "", _INTRODUCTION.format(command=COMMAND)]
    text += [
        f"{len(every)} claims of {len(by_project(every))} projects, {_text(_measured(every))}.",
        "",
    ]
    if described := machines.described():
        text += ["Measured on:", "", *(f"- {_text(each)}" for each in described)]
        if versions := ", ".join(_versions(every)):
            text.append(f"- with {_text(versions)}")
        text.append("")
    for title, own in _groups(every):
        text += [f"## {title}", "", "| claim | project | says | measured |", "|---|---|---|---|"]
        text += [f"| {' | '.join(_cells(each, machines, pictures))} |" for each in own]
        text.append("")
    text += ["## Sources and procedures", ""]
    for project, own in by_project(every).items():
        text += [f"### {_text(project)}", ""]
        for each in own:
            text += [*_details(each), ""]
    text += [f"Made by {_code(command)}; a change by hand is lost.", ""]
    return "\n".join(text)


#: What a target's detail is the version of; a runtime says that itself.
_NAMES = {"engine_version": "Docker ", "qemu": "QEMU ", "libvirt": "libvirt "}


def _versions(every: Iterable[Exhibit]) -> list[str]:
    """The versions of what was measured, each once: ``crun version 1.8.1``, ``Docker 20.10.24``."""
    found = {
        f"{_NAMES.get(key, '')}{each.details[key]}"
        for exhibit in every
        for line in exhibit.lines
        if line.last is not None
        for each in line.last.measured.claim.targets
        for key in VERSIONS
        if key in each.details
    }
    return sorted(found, key=str.casefold)


def _groups(every: Sequence[Exhibit]) -> Iterable[tuple[str, list[Exhibit]]]:
    """Each claim once: under its worst verdict, where one is disputed that holds before the others that do."""
    left = list(every)
    for title, belongs in (
        ("Refuted here", lambda each: "refuted" in each.verdicts),
        ("Contested, not refuted here", lambda each: each.source.contested_by and each.measured),
        ("Not decided here", lambda each: "inconclusive" in each.verdicts),
        ("Holds here", lambda each: "holds" in each.verdicts),
        ("Not measured here", lambda each: True),
    ):
        own = [each for each in left if belongs(each)]
        left = [each for each in left if each not in own]
        if own:
            yield title, own


def _cells(each: Exhibit, machines: Machines, pictures: Pictures | None) -> list[str]:
    told = [
        f"{_verdict(line, pictures)} {_text(_figures(line, machines))}".strip()
        for line in each.lines
    ]
    return [
        _text(each.threshold.summary or each.threshold.name),
        _text(each.source.project),
        _text(limit(each.threshold)),
        "<br>".join(told) or "-",
    ]


def _verdict(line: Line, pictures: Pictures | None) -> str:
    verdict = _text(line.verdict)
    if pictures is None or line.last is None:
        return verdict
    return pictures.link(verdict, line.name, line.last.measured.figures)


def _details(each: Exhibit) -> list[str]:
    source = each.source
    where = ", ".join(
        filter(
            None,
            [source.document, source.section, source.commit and f"at {source.commit}", source.date],
        )
    )
    figures = ", ".join(f"{name} {text}" for name, text in source.written.items())
    told = [
        f"- **{_text(each.threshold.summary)}** ({_code(each.threshold.name)})<br>",
        f"  {_text(where)}",
    ]
    for name, value in (
        ("published", figures),
        ("asserted", source.rule),
        ("their procedure", source.procedure),
        ("ours differs", source.deviations),
        ("contested by", source.contested_by),
    ):
        if value:
            told[-1] += "<br>"
            told.append(f"  *{name}*: {_text(' '.join(value.split()))}")
    return told
