"""The tables of a run, as text: one row per claim, sweeps, the phases of starts, figures measured along with the
samples, such as percentiles of a response time, and filled hosts: how many targets ran, and what each one cost.
"""

from __future__ import annotations

import io
import statistics
from typing import TYPE_CHECKING

from rich import box
from rich.bar import Bar
from rich.console import Console
from rich.table import Table
from rich.text import Text

from pytest_vperf import foreign_text
from pytest_vperf.quantity import format_number
from pytest_vperf.reporting import words
from pytest_vperf.results.record import judged

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from pytest_vperf.results.record import (
        Beside,
        ClaimRecord,
        Cost,
        FillingRecord,
        Reading,
        Spread,
    )


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


#: A cost is extrapolated to this many targets: the greatest published number, and the ports of a bridge.
MANY = 1023
_PROCESS = (("rss", "VmRSS"), ("pss", "Pss"), ("size", "VmSize"))
_INSIDE = (("total", "total"), ("used", "used"), ("free", "free"))
#: Rows and greatest bar length of one filling's curve; the record has every reading.
_POINTS, _LENGTH = 9, 40


def fillings_table(records: Sequence[FillingRecord]) -> Table:
    """How many targets ran, and the memory of each in MiB, of its process and as it reports itself."""
    names = [title for _, title in (*_PROCESS, *_INSIDE)]
    table = plain_table("density", "count", "stopped by", *names)
    table.caption = (
        "memory of each process (VmRSS, Pss, VmSize) and in each machine: min/mean/max in MiB"
    )
    table.caption_justify = "left"
    for column in table.columns[1:]:
        column.justify = "right"
    for record in records:
        table.add_row(
            cell(record["name"]),
            str(record["count"]),
            cell(record["stop"]),
            *(_spread(record["process"].get(key)) for key, _ in _PROCESS),
            *(_spread(record["inside"].get(key)) for key, _ in _INSIDE),
        )
    return table


def costs_table(records: Sequence[FillingRecord]) -> Table | None:
    """The cost of one more target, and of many, and how long starting and ending all of them took."""
    if not any(record["cost"] for record in records):
        return None
    table = plain_table(
        "cost of one more",
        "of the host, MiB",
        "of their group, MiB",
        f"{MANY} take, GiB",
        "started in",
        "ended in",
    )
    for column in table.columns[1:]:
        column.justify = "right"
        column.no_wrap = True
    for record in records:
        ended = record["teardown_s"]
        table.add_row(
            cell(record["name"]),
            _cost(record["cost"]),
            _cost(record["cost_in_group"]),
            _cost(many(record), MANY / 1024),
            f"{format_number(record['duration_s'])} s",
            "-" if ended is None else f"{format_number(ended)} s",
        )
    return table


def curves_table(records: Sequence[FillingRecord]) -> Table | None:
    """Memory over the number of targets: that used by their group, or lost by the host if the group does not hold
    all."""
    table = plain_table("memory taken by", "n", "MiB", "")
    for column in table.columns[1:3]:
        column.justify = "right"
    for record in records:
        points = taken(record)
        greatest = max((mib for _, mib in points), default=0.0)
        if greatest <= 0:
            continue
        last = len(points) - 1
        chosen = sorted({round(k * last / (_POINTS - 1)) for k in range(_POINTS)})
        for row, (n, mib) in enumerate(points[index] for index in chosen):
            length = max(0.0, mib) / greatest * _LENGTH
            name = cell("" if row else record["name"])
            table.add_row(name, str(n), f"{mib:.0f}", Bar(_LENGTH, 0, length, width=_LENGTH))
    return table if table.row_count else None


def taken(record: FillingRecord) -> list[tuple[int, float]]:
    """For each reading, the number of targets and the MiB that they took together."""
    curve = record["curve"]

    def lost(reading: Reading) -> float:
        used, empty = reading["group_used"], curve[0]["group_used"]
        if _holds_all(record) and used is not None and empty is not None:
            return (used - empty) / 2**20
        return (curve[0]["available"] - reading["available"]) / 2**20

    return [(reading["n"], lost(reading)) for reading in curve]


def many(record: FillingRecord) -> Cost | None:
    """The cost to extrapolate from: preferably that in the group, which nothing else changes, if it holds all
    memory."""
    return (record["cost_in_group"] if _holds_all(record) else None) or record["cost"]


def _holds_all(record: FillingRecord) -> bool:
    """Whether the targets' group accounts for all their memory."""
    return record["held"] and not record["outside"]


def reasons(records: Sequence[FillingRecord]) -> Table:
    """A table of the reasons why no more were started."""
    table = Table(box=None, show_header=False, pad_edge=False)
    table.add_column(no_wrap=True)
    table.add_column(overflow="fold")
    for record in records:
        table.add_row(cell(f"{record['name']}:"), cell(record["why"]))
        if not record["held"] and record["watched"]:
            watched = f"no control group holds them all, they were watched: {record['watched']}"
            table.add_row(cell(f"{record['name']}:"), cell(watched))
    return table


def _spread(found: Spread | None) -> str:
    if found is None:
        return "-"
    return "/".join(
        f"{value:.0f}" if value >= 100 else f"{value:.3g}"
        for value in (found["min"], found["mean"], found["max"])
    )


def _cost(cost: Cost | None, factor: float = 1.0) -> str:
    """``69.2 [68.7, 70.1]``, or without bounds that are unknown."""
    if cost is None:
        return "-"
    text = format_number(cost["estimate"] * factor)
    if cost["low"] is None or cost["high"] is None:
        return text
    return f"{text} [{format_number(cost['low'] * factor)}, {format_number(cost['high'] * factor)}]"
