"""The tables of a run, as text: every claim on one row, and the phases of what was started."""

from __future__ import annotations

import io
from typing import TYPE_CHECKING

from rich import box
from rich.console import Console
from rich.table import Table
from rich.text import Text

from pytest_vperf.quantity import format_number
from pytest_vperf.reporting import words

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from pytest_vperf.results.record import ClaimRecord

_STYLES = {"holds": "green", "refuted": "bold red"}


def claims_table(records: Sequence[ClaimRecord], width: int) -> Table:
    """Verdict and figures of each claim, a row each, made for lines of ``width`` characters."""
    table = new_table("verdict", "claim", "measured", "limit", "n", "target")
    table.columns[0].no_wrap = True
    # Where a row is too long, the target is folded first: a claim's name mostly says it too.
    longest = max((len(record["name"]) for record in records), default=0)
    table.columns[1].min_width = min(longest, 2 * width // 5)
    table.columns[2].no_wrap = True
    table.columns[4].justify = "right"
    table.columns[4].no_wrap = True
    for record in records:
        style = _STYLES.get(record["verdict"], "yellow")
        table.add_row(
            Text(record["verdict"], style=style),
            Text(record["name"]),
            Text(words.measured(record)),
            Text(words.limit(record)),
            str(record["n"]),
            Text(record["target"] or "-"),
        )
    return table


def remarks(records: Iterable[ClaimRecord]) -> Table | None:
    """Why, for each claim where a reader would ask, below the table: a column of it would be too narrow."""
    table = Table(box=None, show_header=False, pad_edge=False)
    table.add_column(no_wrap=True)
    table.add_column(overflow="fold")
    for record in records:
        # Of an error its first line: the rest stands with the test.
        reason = record["reason"].partition("\n")[0] if record["verdict"] != "holds" else ""
        for text in filter(None, [reason, *record["warnings"]]):
            table.add_row(Text(f"{record['name']}:"), Text(text))
    return table if table.row_count else None


def phases_table(records: Iterable[ClaimRecord]) -> Table | None:
    """Mean time of each phase of a start, and their sum; ``None`` where nothing has phases."""
    rows = [record for record in records if record["phases"]]
    if not rows:
        return None
    names = list(dict.fromkeys(name for record in rows for name in record["phases"]))
    table = new_table("phases of a start, mean in ms", *names, "sum")
    for column in table.columns[1:]:
        column.justify = "right"
        column.no_wrap = True
    for record in rows:
        phases = record["phases"]
        cells = [format_number(phases[name]) if name in phases else "-" for name in names]
        arm = ", first arm" if record["statistic"] == "ratio" else ""
        table.add_row(Text(record["name"] + arm), *cells, format_number(sum(phases.values())))
    return table


def new_table(*names: str) -> Table:
    """An empty table with these columns."""
    # No frames: the rows can be searched, cut and read in a log.
    table = Table(box=box.SIMPLE_HEAD, show_edge=False, pad_edge=False, header_style="bold")
    for name in names:
        table.add_column(name, overflow="fold")
    return table


def render(tables: Sequence[Table], *, width: int, colour: bool) -> list[str]:
    """The tables as lines of at most ``width`` characters."""
    stream = io.StringIO()
    console = Console(
        file=stream,
        width=width,
        force_terminal=colour,
        color_system="standard" if colour else None,
        legacy_windows=False,
        _environ={},  # what a terminal says of itself is known already, and COLUMNS is not meant here
    )
    for number, table in enumerate(tables):
        if number:
            console.print()
        console.print(table)
    return [line.rstrip() for line in stream.getvalue().splitlines()]
