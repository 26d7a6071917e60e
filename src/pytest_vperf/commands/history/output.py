"""Histories on a terminal, with a plot where it is one claim, as Markdown and as JSON."""

from __future__ import annotations

from statistics import median
from typing import TYPE_CHECKING, Any

from pytest_vperf import __version__, foreign_text
from pytest_vperf.quantity import format_number
from pytest_vperf.reporting import words
from pytest_vperf.reporting.layout import remark_lines
from pytest_vperf.reporting.tables import cell, plain_table, render
from pytest_vperf.results.store.series import blame
from pytest_vperf.stats.changes import least_runs

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from pytest_vperf.results.store.model import StoredRun
    from pytest_vperf.results.store.series import Blame, History
    from pytest_vperf.stats.changes import Change

_STYLES = {
    "slower": "bold red",
    "worse": "bold red",
    "faster": "green",
    "better": "green",
    "changed": "yellow",
}
_HEADS = ("since", "claim", "now", "change", "blamed", "runs")
#: The lines of a plot, and the most characters of one.
_LINES, _WIDEST = 12, 120
#: What a plot has beside it: frame, and a number with its unit.
_BESIDE = 16


def answer(found: Sequence[History]) -> str:
    """``history: 1 slower, 1 faster, 6 without a change, 2 with too few runs``: of how many claims."""
    counts: dict[str, int] = {}
    for history in found:
        named = {history.word(change) for change in history.changes}
        if not history.series:
            named.add("without a ratio")
        elif not history.can_show:
            named.add("with too few runs")
        for word in named or {"without a change"}:
            counts[word] = counts.get(word, 0) + 1
    order = [*_STYLES, "without a change", "with too few runs", "without a ratio"]
    return f"history: {', '.join(f'{counts[word]} {word}' for word in order if word in counts)}"


def text(
    found: Sequence[History], left_out: int, *, width: int | None, colour: bool, drawn: bool
) -> str:
    """For a terminal, or a pipe: the answer, a plot where it is one claim, a row for each change, and remarks.

    Args:
        found: the histories.
        left_out: the runs that were on other machines.
        width: of the terminal; ``None`` is any length.
        colour: whether it may have colours.
        drawn: whether characters for drawings can be shown; else the plot is made of letters.
    """
    lines = [answer(found)]
    if len(found) == 1:
        lines += ["", *_plot(found[0], width or 80, colour=colour, drawn=drawn), ""]
    table = plain_table(*_HEADS, keys=2)
    for column in table.columns[2:]:
        column.no_wrap = True
    ordered = sorted(found, key=lambda history: not history.changes)
    rows = [row for history in ordered for row in _rows(history)]
    for first, word, *rest in rows:
        table.add_row(cell(first, _STYLES.get(word, "")), *map(cell, rest))
    parts = render([table], width=width, colour=colour)
    if (remarks := remark_lines([*_remarks(found, left_out)], width)) is not None:
        parts += ["", *render([remarks], width=width, colour=colour)]
    return "".join(f"{line}\n" for line in [*lines, *parts])


def markdown(found: Sequence[History], left_out: int) -> str:
    """The same without a plot, for a page or a comment."""
    lines = [
        f"**{answer(found)}**",
        "",
        f"| {' | '.join(_HEADS)} |",
        "|---|---|---:|---|---|---:|",
    ]
    for history in sorted(found, key=lambda history: not history.changes):
        for first, _, name, *rest in _rows(history):
            shown = [first, foreign_text.markdown_code(name), *map(foreign_text.markdown, rest)]
            lines.append(f"| {' | '.join(shown)} |")
    told = [*_remarks(found, left_out)]
    lines += [
        "",
        *(f"- {foreign_text.markdown(head)} {foreign_text.markdown(rest)}" for head, rest in told),
    ]
    return "".join(f"{line}\n" for line in lines)


def document(found: Sequence[History], left_out: int) -> str:
    """The same, for programs."""
    data = {
        "vperf": __version__,
        "answer": answer(found),
        "left_out": left_out,
        "claims": [_claim(history) for history in found],
    }
    return foreign_text.to_json(data, indent=2) + "\n"


def _claim(history: History) -> dict[str, Any]:
    return {
        "name": history.claim,
        "unit": history.unit,
        "better": history.better,
        "spread": history.series.spread if history.series else None,
        "why": history.why,
        "runs": [
            {"run": run.mark, "started": run.started, "name": run.name, "commit": run.commit,
             "dirty": run.dirty, "value": value}
            for run, value in zip(history.runs, history.values, strict=True)
        ],
        "changes": [
            {
                "kind": change.kind,
                "word": history.word(change),
                "first": change.first,
                "last": change.last,
                "ratio": change.ratio,
                "interval": [change.low, change.high],
                "before": found.before.mark,
                "after": found.after.mark,
                "commits": list(found.commits),
                "machine": {key: [one, other] for key, one, other in found.machine},
            }
            for change in history.changes
            for found in [blame(history, change)]
        ],
    }  # fmt: skip


def _rows(history: History) -> Iterable[tuple[str, ...]]:
    """Of each change, the newest first, when it was, its word, and the cells; or that there is none."""
    runs = str(len(history.runs))
    if history.series:
        runs += f", ±{100 * history.series.spread:.2g} %"
    if not history.changes:
        now = _figure(median(history.values), history.unit)
        none = "no change" if history.series else "-"
        yield ("-", "", history.claim, now, none, "-", runs)
    for change in reversed(history.changes):
        word = history.word(change)
        after = [each.first for each in history.changes if each.first > change.first]
        level = history.values[change.last : min(after, default=len(history.values))]
        yield (
            _day(history.runs[change.first]),
            word,
            history.claim,
            _figure(median(level), history.unit),
            _change(change, word),
            _blamed(blame(history, change)),
            runs,
        )


def _day(run: StoredRun) -> str:
    return run.started[:10]


def _figure(value: float, unit: str) -> str:
    return f"{format_number(value)} {unit}".rstrip()


def _change(change: Change, word: str) -> str:
    """``slower +3.1 % [+2.2, +4]``, or ``slower +10.5 % in 10 runs, +1 % each``."""
    if change.kind == "step":
        interval = (change.low, change.high)
        return f"{word} {words.estimated(change.ratio, '%', interval, _percent)}"
    steps = change.last - change.first + 1
    each = _percent(change.ratio ** (1 / steps))
    return f"{word} {_percent(change.ratio)} % in {steps} runs, {each} % each"


def _percent(ratio: float) -> str:
    return words.signed(100 * (ratio - 1))


def _blamed(found: Blame) -> str:
    if found.same:
        return "no commit"
    if len(found.commits) == 1:
        return found.commits[0].partition(" ")[0]
    old, new = _commit(found.before), _commit(found.after)
    return f"{old}..{new}" if old and new else new or "-"


def _commit(run: StoredRun) -> str:
    return f"{run.commit[:9]}{'+' if run.dirty else ''}" if run.commit else ""


def _remarks(found: Sequence[History], left_out: int) -> Iterable[tuple[str, str]]:
    for history in found:
        for change in reversed(history.changes):
            for told in _told(history, change):
                yield f"{history.claim}:", f"{_day(history.runs[change.first])}: {told}"
    reasons: dict[str, list[str]] = {}
    for history in found:
        why = history.why
        if not why and not history.can_show:
            why = f"a step takes {least_runs()} runs to show, a steady slip fewer"
        if why:
            reasons.setdefault(why, []).append(history.claim)
        if odd := history.odd:
            are = "run in another unit is" if odd == 1 else "runs in another unit are"
            yield f"{history.claim}:", f"{odd} {are} left out"
    for why, names in reasons.items():
        more = f" and {len(names) - 1} more:" if len(names) > 1 else ":"
        yield f"{names[0]}{more}", why
    if left_out:
        yield "left out:", f"{left_out} of the runs, which were on other machines"


def _told(history: History, change: Change) -> Iterable[str]:
    found = blame(history, change)
    old, new = _commit(found.before), _commit(found.after)
    if found.same:
        yield f"the runs before and after are of the same commit, {old}: it is not of the code's making"
    elif len(found.commits) == 1:
        yield f"the commit is {found.commits[0]}"
    elif found.commits:
        count = "1000 or more" if len(found.commits) >= 1000 else str(len(found.commits))
        yield f"one of {count} commits: git log {old.rstrip('+')}..{new.rstrip('+')}"
    elif not (old and new):
        yield f"between the runs {found.before} and {found.after}, of which no commit is known"
    if found.before.dirty or found.after.dirty:
        yield "files had changed that were not committed"
    if found.machine:
        listed = "; ".join(
            f"{key} {one or '-'} → {other or '-'}" for key, one, other in found.machine
        )
        yield f"the machine changed too: {listed}"


def _plot(history: History, width: int, *, colour: bool, drawn: bool) -> list[str]:
    """The figure of each run, the oldest at the left, with a line at each change."""
    from uniplot import plot_to_string

    numbers = list(range(1, len(history.values) + 1))
    shown: Any = plot_to_string(
        list(history.values),
        numbers,
        width=min(width, _WIDEST) - _BESIDE - len(history.unit),
        height=_LINES,
        line_length_hard_cap=min(width, _WIDEST),
        x_min=0.5,
        x_max=len(numbers) + 0.5,
        x_gridlines=[change.first + 0.5 for change in history.changes],
        y_gridlines=[],
        y_unit=f" {history.unit}" if history.unit else "",
        color=colour,
        character_set="block" if drawn else "ascii",
    )
    since, until = _day(history.runs[0]), _day(history.runs[-1])
    under = f"runs 1 to {len(numbers)}, {since} to {until}; a line at each change"
    lines = shown if isinstance(shown, list) else str(shown).splitlines()
    return [*(line.rstrip() for line in lines), under]
