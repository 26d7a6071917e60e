"""The tables of a run, as text: one row per claim, sweeps, the phases of starts, figures measured along with the
samples, such as percentiles of a response time, and filled hosts: how many targets ran, and what each one cost.
"""

from __future__ import annotations

import io
import re
import statistics
from typing import TYPE_CHECKING

from rich.bar import Bar
from rich.console import Console, Group
from rich.text import Text

from pytest_vperf import foreign_text
from pytest_vperf.quantity import format_number
from pytest_vperf.reporting import strips, words
from pytest_vperf.reporting.layout import (
    GAP,
    LATER,
    LEAST,
    PlainTable,
    as_group,
    broken,
    cell_length,
    fitted,
    natural,
    remark_lines,
    row_length,
    wrapped,
)
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


def claims_table(records: Sequence[ClaimRecord], width: int | None) -> PlainTable | Group:
    """A row for each claim with its verdict and figures, for lines of ``width`` characters; ``None`` is any length.

    Where a row has no room for all, the target is left out, then the number of samples; the record has them. Where
    it has no room for a name beside the figures, the name is above them.
    """
    rows = [_cells(record) for record in records]
    if width is None:
        return _claims(rows, ())
    for left_out in ((), ("target",), ("target", "n")):
        table = _claims(rows, left_out)
        widths = [natural(column) for column in table.columns]
        name = widths.pop(1)
        others = row_length([*widths, 0])
        if others + min(name, 2 * width // 5) <= width:
            return table
    if others + min(name, LEAST) <= width:
        return table
    return Group(*_stacked(rows, width), as_group(wrapped(table.note, width, indent=len(LATER))))


#: The rows of a terminal's tables: a reader scrolls through no more.
_ROWS = 200


def with_rows(records: Sequence[ClaimRecord]) -> Sequence[ClaimRecord]:
    """The claims that have rows where all would be too many: those that do not hold before those that do; in the
    order of the run."""
    if len(records) <= _ROWS:
        return records
    first = sorted(range(len(records)), key=lambda at: records[at]["verdict"] == "holds")
    return [records[at] for at in sorted(first[:_ROWS])]


#: Below a table without some of its columns.
_LEFT_OUT = (
    "no room here for {}: in the record (--claims-json=FILE), and in the text of a refuted claim"
)


def _cells(record: ClaimRecord) -> dict[str, Text]:
    return {
        "verdict": cell(words.verdict(record), _STYLES.get(record["verdict"], "yellow")),
        "claim": cell(record["name"] + words.on_side(record)),
        "measured": cell(words.measured(record)),
        "limit": cell(words.limit(record)),
        "n": cell(str(record["n"])),
        "target": cell(record["target"] or "-"),
    }


def _claims(rows: Sequence[dict[str, Text]], left_out: Sequence[str]) -> PlainTable:
    heads = ("verdict", "claim", "measured", "limit", "n", "target")
    shown = [head for head in heads if head not in left_out]
    table = plain_table(*shown, keys=2)
    for column, head in zip(table.columns, shown, strict=True):
        column.no_wrap = head not in ("claim", "target")
        column.justify = "right" if head == "n" else "left"
    for row in rows:
        table.add_row(*(row[head] for head in shown))
    if left_out:
        table.note = _LEFT_OUT.format(", ".join(left_out))
    return table


def _stacked(rows: Sequence[dict[str, Text]], width: int) -> Iterable[Text]:
    """Each claim's name on a line of its own, above its figures; these are one a line if lines are too short."""
    figures = ("verdict", "measured", "limit")
    widths = {head: max(cell_length(row[head]) for row in [*rows, _HEADS]) for head in figures}
    length = len(LATER) + row_length(widths.values())
    for row in [_HEADS, *rows] if length <= width else rows:
        for line in broken(row["claim"].plain, width):
            yield Text(line, row["claim"].style)
        if length > width:
            yield from (Text(f"{LATER}{head:8}  ").append_text(row[head]) for head in figures)
            continue
        text = Text(LATER)
        for head in figures:
            text.append_text(row[head]).append(" " * (widths[head] - cell_length(row[head]) + GAP))
        yield text
        if row is _HEADS:
            yield Text("─" * length)


_HEADS = {head: Text(head, "bold") for head in ("verdict", "claim", "measured", "limit")}


#: The most claims that a remark about several names, without ``-v``.
_NAMED = 3


def remarks(
    records: Sequence[ClaimRecord], width: int | None, *, verbose: bool = False
) -> Group | None:
    """Reasons and warnings, below the table since a column would be too narrow; ``None`` if there are none.

    Claims with the same reason, or with a warning of the same kind, share a remark. What could not be measured comes
    last, where a reader of a first run looks for what to install.

    Args:
        records: the claims.
        width: of a line; ``None`` is any length.
        verbose: whether a remark about several claims names all of them.
    """
    measured = [record for record in records if record["verdict"] != "not measured"]
    others = [record for record in records if record["verdict"] == "not measured"]
    told = [
        *_reasons(measured, verbose),
        *_notes(records, verbose),
        *_reasons(others, verbose),
    ]
    return remark_lines(told, width)


def _reasons(records: Sequence[ClaimRecord], verbose: bool) -> Iterable[tuple[str, str]]:
    groups: dict[tuple[str, str], dict[str, list[str]]] = {}
    for record in records:
        # Only the first line of an error: the test shows the rest.
        reason = record["reason"].partition("\n")[0]
        if record["verdict"] != "holds" and reason:
            key = record["verdict"], _without_name(reason, record["name"])
            groups.setdefault(key, {}).setdefault(reason, []).append(record["name"])
    for (verdict, general), reasons in groups.items():
        names = [name for each in reasons.values() for name in each]
        reason = general if len(reasons) > 1 else next(iter(reasons))
        if len(names) == 1:
            yield f"{names[0]}:", reason
        else:
            yield f"{verdict} ({len(names)} claims):", f"{reason}: {_names(names, verbose)}"


def _without_name(reason: str, name: str) -> str:
    """A reason in which the claim's name is ``NAME``, as it would be for another claim."""
    return re.sub(rf"(?<![\w.]){re.escape(name)}(?!\.?\w)", "NAME", reason)


def _names(names: Sequence[str], verbose: bool) -> str:
    found = list(dict.fromkeys(names))
    if verbose or len(found) <= _NAMED:
        return ", ".join(found)
    return f"{', '.join(found[:_NAMED])}, and {len(found) - _NAMED} more"


def _notes(records: Sequence[ClaimRecord], verbose: bool) -> Iterable[tuple[str, str]]:
    groups: dict[tuple[str, str], list[tuple[str, str]]] = {}
    for record in records:
        for warning in record["warnings"]:
            # "KIND: figures of this claim: what to do"
            kind, _, rest = warning.partition(": ")
            what = rest.rpartition(": ")[2]
            groups.setdefault((kind, what), []).append((record["name"], warning))
    for (kind, what), found in groups.items():
        name, warning = found[0]
        text = f"{kind}: {what}" if what else kind
        if len(found) == 1:
            yield f"{name}:", warning
        elif verbose:
            yield f"{len(found)} claims:", f"{text}: {_names([each for each, _ in found], verbose)}"
        else:
            yield f"{len(found)} claims:", f"{text}; `-v` names them"


def arms_table(records: Iterable[ClaimRecord]) -> PlainTable | None:
    """The median of each arm of a comparison, in the unit that was measured; ``None`` if there is none."""
    table = plain_table("medians of a comparison", "first", "second")
    for column in table.columns[1:]:
        column.no_wrap = True
    for record in records:
        if found := strips.arms(record):
            table.add_row(
                cell(record["name"]), *(cell(words.figures(own)) for own in found.values())
            )
    return table if table.row_count else None


def samples_on_axes(records: Iterable[ClaimRecord], width: int | None) -> PlainTable | Group | None:
    """The samples of each claim as dots, a line for each arm; ``None`` if there are none to show.

    Where a line has no room for a claim's name beside its axis, the name is above it.
    """
    table = plain_table("samples", "of", "on an axis", keys=2)
    table.note = strips.LEGEND
    for column in table.columns:
        column.no_wrap = True
    stacked = [Text(f"samples: {strips.LEGEND}", "bold")]
    shown = [(record, strip) for record in records for strip in strips.strips(record)]
    lines = strips.lines(strip for _, strip in shown)
    above: ClaimRecord | None = None
    for (record, strip), line in zip(shown, lines, strict=True):
        name = cell("" if record is above else record["name"] + words.on_side(record))
        table.add_row(name, cell(strip.name), line)
        stacked += [Text(each) for each in broken(name.plain, width or 0) if name.plain]
        stacked.append(Text(f"{LATER}{strip.name:6}  {line}"))
        above = record
    if not shown:
        return None
    fits = width is None or row_length(map(natural, table.columns)) <= width
    return table if fits else Group(*stacked)


def phases_table(records: Iterable[ClaimRecord]) -> PlainTable | None:
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


def sweeps_table(records: Iterable[ClaimRecord]) -> PlainTable | None:
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


def plain_table(*names: str, keys: int = 1) -> PlainTable:
    """A table without frames. Its first ``keys`` columns say what a row is about."""
    table = PlainTable(keys=keys)
    for name in names:
        table.add_column(cell(name), overflow="fold")
    return table


#: More characters than any line has: what fits is decided in `layout`, not by rich.
_ENDLESS = 1 << 24


def render(parts: Sequence[PlainTable | Group], *, width: int | None, colour: bool) -> list[str]:
    """Tables and remarks as lines of ``width`` characters, or more for long figures; ``None`` is any length."""
    stream = io.StringIO()
    console = Console(
        file=stream,
        width=_ENDLESS,
        force_terminal=colour,
        color_system="standard" if colour else None,
        legacy_windows=False,
        _environ={},  # the terminal's abilities are known already, and COLUMNS does not apply
    )
    for number, part in enumerate(parts):
        if number:
            console.print()
        for piece in fitted(part, width) if isinstance(part, PlainTable) else [part]:
            console.print(piece)
    return [line.rstrip() for line in stream.getvalue().splitlines()]


#: Labels of the arms of a comparison.
_ARMS = {"a": ", first arm", "b": ", second arm"}


def beside_tables(records: Iterable[ClaimRecord]) -> list[PlainTable]:
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


def _table(rows: Sequence[tuple[str, dict[str, str]]]) -> PlainTable:
    heads = list(dict.fromkeys(head for _, cells in rows for head in cells))
    table = plain_table("beside the samples, median", *heads)
    for column in table.columns[1:]:
        column.justify = "right"
        column.no_wrap = True
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


def fillings_table(records: Sequence[FillingRecord]) -> PlainTable:
    """How many targets ran, and the memory of each in MiB, of its process and as it reports itself."""
    names = [title for _, title in (*_PROCESS, *_INSIDE)]
    table = plain_table("density", "count", "stopped by", *names)
    table.note = (
        "memory of each process (VmRSS, Pss, VmSize) and in each machine: min/mean/max in MiB"
    )
    for column in table.columns[1:]:
        column.justify = "right"
        column.no_wrap = True
    for record in records:
        table.add_row(
            cell(record["name"]),
            str(record["count"]),
            cell(record["stop"]),
            *(_spread(record["process"].get(key)) for key, _ in _PROCESS),
            *(_spread(record["inside"].get(key)) for key, _ in _INSIDE),
        )
    return table


def costs_table(records: Sequence[FillingRecord]) -> PlainTable | None:
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


def curves_table(records: Sequence[FillingRecord]) -> PlainTable | None:
    """Memory over the number of targets: that used by their group, or lost by the host if the group does not hold
    all."""
    table = plain_table("memory taken by", "n", "MiB", "")
    for column in table.columns[1:]:
        column.justify, column.no_wrap = "right", True
    table.columns[3].justify = "left"
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


def reasons(records: Sequence[FillingRecord], width: int | None) -> Group | None:
    """The reasons why no more were started."""
    found: list[tuple[str, str]] = []
    for record in records:
        found.append((f"{record['name']}:", record["why"]))
        if not record["held"] and record["watched"]:
            watched = f"no control group holds them all, they were watched: {record['watched']}"
            found.append((f"{record['name']}:", watched))
    return remark_lines(found, width)


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
