"""The table on a terminal: nothing is cut, however narrow it is."""

from __future__ import annotations

from typing import TYPE_CHECKING

from rich.text import Text

from pytest_vperf.claims_table.machines import Machines
from pytest_vperf.console import print_table, tell
from pytest_vperf.foreign_text import line as one_line

if TYPE_CHECKING:
    from collections.abc import Sequence

    from pytest_vperf.claims_table.lines import Line
    from pytest_vperf.claims_table.overview import Part

_STYLES = {"holds": "green", "refuted": "bold red"}


def print_lines(lines: Sequence[Line]) -> None:
    """Print a table for each profile, and the machines that the verdicts are of."""
    machines = Machines(lines)
    for profile in dict.fromkeys(line.profile for line in lines):
        tell(f"{profile or 'no profile'}:\n")
        rows = [_row(line, machines) for line in lines if line.profile == profile]
        print_table(("last verdict", "claim, limit; measured, on, date; why; test; source"), rows)
        tell()
    for machine in machines.described():
        tell(f"machine {machine}")
    tell(counts(lines))


def print_parts(parts: Sequence[Part]) -> None:
    """Print the table of rows and profiles."""
    print_table(
        ("row", "profile", "measured", "on, verdicts", "not measured"),
        [
            (
                f"{part.row.name} {part.row.claim}",
                part.profile,
                f"{part.measured} of {part.claims}",
                "\n".join(part.on) or "-",
                "\n".join(part.missing) or "-",
            )
            for part in parts
        ],
    )
    tell()


def counts(lines: Sequence[Line]) -> str:
    """``claims: 120, of which 17 were measured: 5 holds, 2 refuted``; a verdict of each machine and place counts."""
    names = {(line.profile, line.name) for line in lines}
    ran = [line for line in lines if line.last and line.last.measured.was_measured]
    verdicts = [line.last.measured.claim.verdict for line in ran if line.last]
    told = ", ".join(f"{verdicts.count(each)} {each}" for each in dict.fromkeys(sorted(verdicts)))
    measured = len({(line.profile, line.name) for line in ran})
    return f"claims: {len(names)}, of which {measured} were measured{f': {told}' if told else ''}"


def _row(line: Line, machines: Machines) -> tuple[Text, Text]:
    """The verdict, and all else below one another: side by side, names and reasons would be columns of scraps."""
    pattern = f" (of {one_line(line.entry)})" if line.entry and line.entry != line.name else ""
    told = Text.assemble((one_line(line.name), "bold"), f"{pattern}  {one_line(line.limit)}")
    verdict = Text("never measured", "yellow")
    below = [line.why.removeprefix("never measured").removeprefix(": ")]
    if line.last is not None:
        record = line.last.measured
        verdict = Text(record.claim.verdict, _STYLES.get(record.claim.verdict, "yellow"))
        figures = f"{record.figures}, n {record.claim.n}" if record.was_measured else ""
        told_of = [figures, machines.on(record), str(record.when.date())]
        below = [", ".join(filter(None, told_of)), line.why]
    below += [*line.tests, line.source]
    for text in filter(None, below):
        told.append(f"\n{one_line(text)}")
    return verdict, told
