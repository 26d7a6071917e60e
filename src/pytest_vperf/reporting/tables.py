"""The tables of a run, as text: one row per claim, sweeps, the phases of starts, and figures measured along with the
samples, such as percentiles of a response time.
"""

from __future__ import annotations

import io
import statistics
from typing import TYPE_CHECKING

from rich import box
from rich.console import Console
from rich.table import Table
from rich.text import Text

from pytest_vperf import foreign_text
from pytest_vperf.quantity import format_number
from pytest_vperf.reporting import words
from pytest_vperf.results.record import judged

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from pytest_vperf.results.record import Beside, ClaimRecord


_STYLES = {"holds": "green", "refuted": "bold red"}


def claims_table(records: Sequence[ClaimRecord], width: int) -> Table:
    """A row for each claim with its verdict and figures, for lines of ``width`` characters."""
    table = plain_table("verdict", "claim", "measured", "limit", "n", "target")
    table.columns[0].no_wrap = True
    # If a row is too long, the target is folded first: the claim's name mostly implies it.
    longest = max((len(record["name"]) for record in records), default=0)
    table.columns[1].min_width = min(longest, 2 * width // 5)
    table.columns[2].no_wrap = True
    table.columns[4].justify = "right"
    table.columns[4].no_wrap = True
    for record in records:
        style = _STYLES.get(record["verdict"], "yellow")
        table.add_row(
            cell(record["verdict"], style),
            cell(record["name"]),
            cell(words.measured(record)),
            cell(words.limit(record)),
            str(record["n"]),
            cell(record["target"] or "-"),
        )
    return table


def remarks(records: Iterable[ClaimRecord]) -> Table | None:
    """Reasons and warnings, below the table since a column would be too narrow; ``None`` if there are none."""
    table = Table(box=None, show_header=False, pad_edge=False)
    table.add_column(no_wrap=True)
    table.add_column(overflow="fold")
    for record in records:
        # Only the first line of an error: the test shows the rest.
        reason = record["reason"].partition("\n")[0] if record["verdict"] != "holds" else ""
        for text in filter(None, [reason, *record["warnings"]]):
            table.add_row(cell(f"{record['name']}:"), cell(text))
    return table if table.row_count else None


def phases_table(records: Iterable[ClaimRecord]) -> Table | None:
    """Mean time of each phase of a start, and their sum; ``None`` if no claim has phases."""
    rows = [record for record in records if record["phases"]]
    if not rows:
        return None
    names = list(dict.fromkeys(name for record in rows for name in record["phases"]))
    table = plain_table("phases of a start, mean in ms", *names, "sum")
    for column in table.columns[1:]:
        column.justify = "right"
        column.no_wrap = True
    for record in rows:
        phases = record["phases"]
        cells = [format_number(phases[name]) if name in phases else "-" for name in names]
        arm = ", first arm" if record["statistic"] == "ratio" else ""
        table.add_row(cell(record["name"] + arm), *cells, format_number(sum(phases.values())))
    return table


def sweeps_table(records: Iterable[ClaimRecord]) -> Table | None:
    """A row for each load of each sweep, with medians of both ends' counts; ``None`` if there was no sweep."""
    table = plain_table("sweep", "point", "asked", "offered", "carried", "n", "busiest thread")
    for column in table.columns[1:6]:
        column.justify = "right"
        column.no_wrap = True
    for record in records:
        sweep = record["sweep"]
        unit = f", {sweep['unit']}" if sweep and sweep["unit"] else ""
        for row in sweep["loads"] if sweep else []:
            flat = (
                sweep is not None and sweep["shape"] == "plateau" and row["asked"] in sweep["flat"]
            )
            note = f" ({row['left_out']} left out)" if row["left_out"] else ""
            table.add_row(
                cell(record["name"] + unit),
                cell(row["point"]),
                format_number(row["asked"]),
                format_number(row["offered"]),
                cell(f"{format_number(row['carried'])}{' flat' if flat else ''}"),
                f"{row['n']}{note}",
                cell(row["busiest"] or "-"),
            )
    return table if table.row_count else None


def cell(text: str, style: str = "") -> Text:
    """A table cell: on one line, without markup or control characters."""
    return Text(foreign_text.line(text), style=style)


def plain_table(*names: str) -> Table:
    """A table without frames."""
    # No frames: the rows can be searched, cut and read in a log.
    table = Table(box=box.SIMPLE_HEAD, show_edge=False, pad_edge=False, header_style="bold")
    for name in names:
        table.add_column(cell(name), overflow="fold")
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
        _environ={},  # the terminal's abilities are known already, and COLUMNS does not apply
    )
    for number, table in enumerate(tables):
        if number:
            console.print()
        console.print(table)
    return [line.rstrip() for line in stream.getvalue().splitlines()]


#: Labels of the arms of a comparison.
_ARMS = {"a": ", first arm", "b": ", second arm"}


def beside_tables(records: Iterable[ClaimRecord]) -> list[Table]:
    """A table for all claims with the same first extra figure, a row for each arm of each claim; ``-`` is not
    measured.

    A cell is the median over the judged samples; if a sample has several figures, such as one per target, it is the
    minimum, median and maximum of all of them.
    """
    tables: dict[str, list[tuple[str, dict[str, str]]]] = {}
    for record in records:
        counted = judged(record["observations"])
        for arm in dict.fromkeys(observation["arm"] for observation in counted):
            of_arm = [each["beside"] for each in counted if each["arm"] == arm]
            names = list(dict.fromkeys(name for beside in of_arm for name in beside))
            if not names:
                continue
            cells = {_head(name, of_arm): _cell(name, of_arm) for name in names}
            label = record["name"] + (_ARMS[arm] if record["statistic"] == "ratio" else "")
            tables.setdefault(next(iter(cells)), []).append((label, cells))
    return [_table(rows) for rows in tables.values()]


def _table(rows: Sequence[tuple[str, dict[str, str]]]) -> Table:
    heads = list(dict.fromkeys(head for _, cells in rows for head in cells))
    table = plain_table("beside the samples, median", *heads)
    for column in table.columns[1:]:
        column.justify = "right"
    for label, cells in rows:
        table.add_row(cell(label), *(cells.get(head, "-") for head in heads))
    return table


def _head(name: str, of_arm: Iterable[dict[str, Beside]]) -> str:
    unit = next(beside[name]["unit"] for beside in of_arm if name in beside)
    return f"{name.replace('_', ' ')}, {unit}" if unit else name.replace("_", " ")


def _cell(name: str, of_arm: Iterable[dict[str, Beside]]) -> str:
    series = [beside[name]["values"] for beside in of_arm if name in beside]
    figures = [value for values in series for value in values]
    middle = format_number(statistics.median(figures))
    if all(len(values) == 1 for values in series):
        return middle
    return f"{format_number(min(figures))} … {middle} … {format_number(max(figures))}"
