"""The tables of filled hosts: how many targets ran, what each one cost, and why no more were started."""

from __future__ import annotations

from typing import TYPE_CHECKING

from rich.bar import Bar
from rich.table import Table

from pytest_vperf.quantity import format_number
from pytest_vperf.reporting.tables import cell, plain_table

if TYPE_CHECKING:
    from collections.abc import Sequence

    from pytest_vperf.results.record import Cost, FillingRecord, Reading, Spread

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
