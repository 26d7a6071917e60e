"""Tables of verdicts, as text."""

from __future__ import annotations

from typing import TYPE_CHECKING

from verdicts.decisions import upper_bound

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from verdicts.cells import Cell
    from verdicts.decisions import Tally

#: Said once under the tables.
LEGEND = (
    "Cells: % refuted / % holds / % undecided. <x: none of them seen; with 95 % confidence the rate is below x %"
    " (Clopper and Pearson).\nSamples are those of both arms, warm-up too."
)


def verdict_table(title: str, truth: str, tallies: Mapping[Cell, Tally]) -> str:
    """One table: a row for each rule, a column for each true difference, then the mean samples.

    Args:
        title: of the table.
        truth: what the columns are, with a ``{}`` for the number.
        tallies: the cells of this table.
    """
    truths = sorted({cell.truth for cell in tallies})
    by_row: dict[str, dict[float, Tally]] = {}
    for cell, tally in tallies.items():
        by_row.setdefault(cell.rule, {})[cell.truth] = tally
    heads = [truth.format(f"{value:g}") for value in truths]
    rows = [["", *heads, *("samples" if not i else "" for i in range(len(truths)))]]
    rows.append(["rule", *("" for _ in heads), *(f"{value:g}" for value in truths)])
    for name, cells in by_row.items():
        found = [cells.get(value) for value in truths]
        rows.append(
            [
                name,
                *(rates(tally) if tally else "-" for tally in found),
                *(f"{tally.mean_samples:.0f}" if tally else "-" for tally in found),
            ]
        )
    return f"{title}\n{aligned(rows)}"


def rates(tally: Tally) -> str:
    """``0.4/97.6/2.0``."""
    counts = (tally.refuted, tally.holds, tally.undecided)
    return "/".join(percent(count, tally.total) for count in counts)


def percent(count: int, total: int) -> str:
    """A rate in percent, without claiming more than was seen."""
    if count == 0:
        return f"<{short(100 * upper_bound(0, total))}"
    if count == total:
        return "100"
    return short(100 * count / total)


def short(value: float) -> str:
    """A number of percent in few digits: ``0.04``, ``2.4``, ``97.6``, ``99.97``."""
    return f"{value:.2f}" if value < 0.095 or 99.95 <= value < 100 else f"{value:.1f}"


def aligned(rows: Sequence[Sequence[str]]) -> str:
    """Columns of equal width, the first to the left, a line under the heads of two rows."""
    widths = [max(len(row[i]) for row in rows) for i in range(len(rows[0]))]
    lines = []
    for row in rows:
        cells = [row[0].ljust(widths[0])]
        cells += [text.rjust(width) for text, width in zip(row[1:], widths[1:], strict=True)]
        lines.append("  ".join(cells).rstrip())
    return "\n".join(lines)
