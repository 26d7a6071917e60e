"""A comparison of runs on a terminal, as Markdown and as JSON. Texts of records are foreign, and shown literally."""

from __future__ import annotations

from statistics import median
from typing import TYPE_CHECKING, Any

from pytest_vperf import __version__, foreign_text
from pytest_vperf.quantity import Quantity, format_number, is_speed
from pytest_vperf.reporting import words
from pytest_vperf.reporting.layout import remark_lines
from pytest_vperf.reporting.tables import cell, plain_table, render

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from pytest_vperf.commands.compare.comparison import Comparison, Row
    from pytest_vperf.results.store.model import StoredRun

_STYLES = {"holds": "green", "refuted": "bold red"}
_HEADS = ("new", "claim", "old runs", "new runs", "change", "visible from", "runs")


def answer(found: Comparison, tolerance: float) -> str:
    """``compare: 1 slower, 6 not slower (within 5 %), 1 undecided``."""
    if not found.rows:
        return "compare: no claim is in both"
    worse = "slower" if all(_is_speed(row) for row in found.rows) else "worse"
    named = {
        "refuted": worse,
        "holds": f"not {worse} (within {Quantity(tolerance * 100, '%')})",
        "inconclusive": "undecided",
        "not comparable": "not comparable",
    }
    counts = [
        f"{sum(row.verdict == verdict for row in found.rows)} {name}"
        for verdict, name in named.items()
        if any(row.verdict == verdict for row in found.rows)
    ]
    return f"compare: {', '.join(counts)}"


def text(found: Comparison, tolerance: float, *, width: int | None, colour: bool) -> str:
    """For a terminal, or a pipe: the answer, what was compared, a row for each claim, and remarks."""
    table = plain_table(*_HEADS, keys=2)
    for column in table.columns[2:]:
        column.no_wrap = True
    for column in table.columns[5:]:
        column.justify = "right"
    for row in found.rows:
        first, *rest = _cells(row)
        table.add_row(cell(first, _STYLES.get(row.verdict, "yellow")), *map(cell, rest))
    lines = [answer(found, tolerance), *(f"{head}: {line}" for head, line in _about(found))]
    parts = render([table], width=width, colour=colour) if found.rows else []
    if (remarks := remark_lines([*_remarks(found)], width)) is not None:
        parts += ["", *render([remarks], width=width, colour=colour)]
    return "".join(f"{foreign_text.line(line)}\n" for line in lines) + "".join(
        f"{line}\n" for line in parts
    )


def markdown(found: Comparison, tolerance: float) -> str:
    """The same, for a page or a comment."""
    lines = [f"**{answer(found, tolerance)}**", ""]
    lines += [f"- {head}: {foreign_text.markdown(line)}" for head, line in _about(found)]
    if found.rows:
        lines += ["", f"| {' | '.join(_HEADS)} |", "|---|---|---:|---:|---:|---:|---:|"]
    for row in found.rows:
        first, name, *rest = _cells(row)
        shown = [first, foreign_text.markdown_code(name), *map(foreign_text.markdown, rest)]
        lines.append(f"| {' | '.join(shown)} |")
    if remarks := [*_remarks(found)]:
        lines.append("")
    lines += [
        f"- {foreign_text.markdown(head)} {foreign_text.markdown(told)}" for head, told in remarks
    ]
    return "".join(f"{line}\n" for line in lines)


def document(found: Comparison, tolerance: float, status: int) -> str:
    """The same, for programs."""
    data: dict[str, Any] = {
        "vperf": __version__,
        "answer": answer(found, tolerance),
        "exit_status": status,
        "tolerance": tolerance,
        "old": [_run(run) for run in found.old],
        "new": [_run(run) for run in found.new],
        "claims": [_claim(row) for row in found.rows],
        "only_old": list(found.only_old),
        "only_new": list(found.only_new),
        "left_out": found.elsewhere,
        "changed": {key: [one, other] for key, one, other in found.changed},
    }
    return foreign_text.to_json(data, indent=2) + "\n"


def _run(run: StoredRun) -> dict[str, Any]:
    return {
        "run": run.mark,
        "started": run.started,
        "name": run.name,
        "commit": run.commit,
        "dirty": run.dirty,
    }


def _claim(row: Row) -> dict[str, Any]:
    found = row.compared
    return {
        "name": row.claim,
        "verdict": row.verdict,
        "reason": found.reason if found else row.why,
        "unit": row.unit,
        "better": row.better,
        "old": list(row.old),
        "new": list(row.new),
        "ratio": found.ratio if found else None,
        "interval": [found.low, found.high] if found else None,
        "confidence": found.confidence if found else None,
        "visible": found.visible if found else None,
        "missing": found.missing if found else None,
    }


def _cells(row: Row) -> list[str]:
    worse = "slower" if _is_speed(row) else "worse"
    verdict = {"refuted": worse, "holds": f"not {worse}", "inconclusive": "undecided"}
    found = row.compared
    change, visible = "-", "-"
    if found is not None:
        change = words.estimated(
            found.ratio, "%", (found.low, found.high), lambda ratio: words.signed(100 * (ratio - 1))
        )
        if found.visible is not None:
            visible = f"{100 * found.visible:.2g} %"
    return [
        verdict.get(row.verdict, row.verdict),
        row.claim,
        _figures(row.old, row.unit),
        _figures(row.new, row.unit),
        change,
        visible,
        f"{len(row.old)}, {len(row.new)}",
    ]


def _figures(values: Sequence[float], unit: str) -> str:
    """``172.2 ms (170.1 to 175.8)``: the median of the runs, and the least and the greatest."""
    shown = f"{format_number(median(values))} {unit}".rstrip()
    low, high = format_number(min(values)), format_number(max(values))
    return shown if low == high else f"{shown} ({low} to {high})"


def _is_speed(row: Row) -> bool:
    return bool(row.unit) and is_speed(row.unit)


def _about(found: Comparison) -> Iterable[tuple[str, str]]:
    """What was compared: the runs of each side, and what else differs between them."""
    for head, runs in (("old", found.old), ("new", found.new)):
        count = "1 run" if len(runs) == 1 else f"{len(runs)} runs"
        since = f"{runs[-1]} to {runs[0]}" if len(runs) > 1 else str(runs[0])
        yield head, f"{count}: {since}"
    if found.changed:
        told = [f"{key} {one or '-'} → {other or '-'}" for key, one, other in found.changed]
        yield "also", "; ".join(told)


def _remarks(found: Comparison) -> Iterable[tuple[str, str]]:
    reasons: dict[str, list[str]] = {}
    for row in found.rows:
        if row.verdict != "holds":
            reason = row.compared.reason if row.compared else row.why
            reasons.setdefault(reason, []).append(row.claim)
    for reason, names in reasons.items():
        more = f" and {len(names) - 1} more:" if len(names) > 1 else ":"
        yield f"{names[0]}{more}", reason
    for head, missing in (("only in old:", found.only_old), ("only in new:", found.only_new)):
        if missing:
            yield head, ", ".join(missing)
    if found.elsewhere:
        yield "left out:", f"{found.elsewhere} of the runs, which were on other machines"
