"""What was measured along with the samples, as tables: percentiles of a response time, how fair a hundred shared."""

from __future__ import annotations

import statistics
from typing import TYPE_CHECKING

from pytest_vperf.quantity import format_number
from pytest_vperf.reporting.table import cell, plain_table
from pytest_vperf.results.record import judged

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from rich.table import Table

    from pytest_vperf.results.record import Beside, ClaimRecord

#: Of the arms of a comparison.
_ARMS = {"a": ", first arm", "b": ", second arm"}


def beside_tables(records: Iterable[ClaimRecord]) -> list[Table]:
    """A table for those that begin with the same name, a row for each arm of each claim; ``-`` is not measured.

    A cell is the median over the samples that count; where a sample has several figures, such as one of each target,
    it is the least, the median and the greatest of all of them.
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
