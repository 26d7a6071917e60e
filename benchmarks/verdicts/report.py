"""Runs what the command asks for, prints its tables, and writes its files."""

from __future__ import annotations

import json
import time
from typing import TYPE_CHECKING, Any

from verdicts import ours
from verdicts.cells import LIMIT, NEAR, TOLERANCES, Cell, comparison
from verdicts.goals import gate, score_table, scores
from verdicts.live import TOLERANCE, live
from verdicts.plot import plot
from verdicts.robustness import robustness
from verdicts.simulation import over_traces, simulate
from verdicts.tables import LEGEND, aligned, verdict_table

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from pathlib import Path

    from verdicts.decisions import Tally
    from verdicts.draws import Noise
    from verdicts.goals import Score
    from verdicts.live import Live
    from verdicts.simulation import Tallies
    from verdicts.trace import Trace

_HEADS = {comparison(percent): "d={} %" for percent in TOLERANCES}
_HEADS |= {NEAR: "off {} %", LIMIT: "{} % of truth"}


def simulated(
    traces: Sequence[Trace],
    decisions: int,
    noise: Noise,
    *,
    processes: int | None,
    quick: bool,
    per_trace: bool,
    gated: bool,
    plot_to: Path | None,
    json_to: Path | None,
) -> int:
    """The simulator's tables.

    Returns:
        the exit status.
    """
    began = time.perf_counter()
    print(
        f"{len(traces)} traces ({', '.join(trace.name for trace in traces)}), "
        f"{decisions} decisions of each cell on each, seed {noise.seed}, mean block {noise.block:g}"
        f"{_effects(noise)}\n{LEGEND}\n"
    )
    tallies = simulate(traces, decisions, noise, processes=processes)
    together = over_traces(tallies)
    for table, head in _HEADS.items():
        print(verdict_table(table, head, _of(table, together)), end="\n\n", flush=True)
    if per_trace:
        _print_per_trace(traces, tallies)
    if not quick:
        found = robustness(traces, max(1, decisions // 4), noise)
        title = "Robustness: the comparison at a tolerance of 2 %"
        print(verdict_table(title, "d={} %", found), end="\n\n")
    metrics = scores(together)
    print(score_table(metrics))
    print(f"\n{time.perf_counter() - began:.0f} s")
    if plot_to:
        plot(together, plot_to)
    if json_to:
        _write(json_to, _as_json(tallies, metrics, noise, decisions))
    return gate(metrics, strict=not quick) if gated else 0


def measured(
    names: Sequence[str],
    slowdowns: Sequence[int],
    decisions: int,
    seed: int,
    *,
    ours_alone: bool,
    json_to: Path | None,
) -> int:
    """The tables of work that really runs.

    Returns:
        the exit status: 1 if nothing could be measured.
    """
    from alone import alone

    with alone():
        found = live(names, slowdowns, decisions, seed, alone=ours_alone)
    for name, reason in found.left_out.items():
        print(f"{name}: left out: {reason}")
    if not found.tallies:
        return 1
    print(f"Tolerance {TOLERANCE:g} %, {decisions} decisions of each cell, seed {seed}\n{LEGEND}\n")
    for name in names:
        if name not in found.left_out:
            print(verdict_table(name, "+{} %", _of(name, found.tallies)), end="\n\n")
            print(f"{name}: mean seconds of a decision\n{_seconds(name, found)}", end="\n\n")
    if json_to:
        rows = [_row(cell, tally) for cell, tally in found.tallies.items()]
        _write(json_to, {"seed": seed, "cells": rows, "left_out": found.left_out})
    return 0


def _effects(noise: Noise) -> str:
    parts = []
    if noise.position:
        parts.append(f", second calls {100 * noise.position:+g} %")
    if noise.warm_up:
        parts.append(f", first call {100 * noise.warm_up:+g} %")
    return "".join(parts)


def _of(table: str, tallies: Mapping[Cell, Tally]) -> dict[Cell, Tally]:
    return {cell: tally for cell, tally in tallies.items() if cell.table == table}


def _print_per_trace(traces: Sequence[Trace], tallies: Tallies) -> None:
    for table, rule in [(comparison(percent), ours.COMPARE) for percent in TOLERANCES] + [
        (NEAR, ours.NEAR),
        (LIMIT, ours.LIMIT),
    ]:
        rows = {
            Cell(table, trace.name, cell.truth): tally
            for trace in traces
            for (name, cell), tally in tallies.items()
            if (name, cell.table, cell.rule) == (trace.name, table, rule)
        }
        print(verdict_table(f"{rule}: {table}, by trace", _HEADS[table], rows), end="\n\n")


def _seconds(name: str, found: Live) -> str:
    cells = [cell for cell in found.tallies if cell.table == name]
    truths = sorted({cell.truth for cell in cells})
    rows = [["rule", *(f"+{truth:g} %" for truth in truths)]]
    for rule in dict.fromkeys(cell.rule for cell in cells):
        keys = [Cell(name, rule, truth) for truth in truths]
        means = [found.seconds[key] / found.tallies[key].total for key in keys]
        rows.append([rule, *(f"{mean:.2f}" for mean in means)])
    return aligned(rows)


def _as_json(
    tallies: Tallies, metrics: Sequence[Score], noise: Noise, decisions: int
) -> dict[str, Any]:
    return {
        "seed": noise.seed,
        "block": noise.block,
        "position": noise.position,
        "warm_up": noise.warm_up,
        "decisions": decisions,
        "metrics": [vars(score) for score in metrics],
        "cells": [
            {"trace": trace, **_row(cell, tally)} for (trace, cell), tally in tallies.items()
        ],
    }


def _row(cell: Cell, tally: Tally) -> dict[str, Any]:
    return {**vars(cell), **vars(tally)}


def _write(path: Path, found: Mapping[str, Any]) -> None:
    path.write_text(json.dumps(found, indent=1, ensure_ascii=False) + "\n", "utf-8")
