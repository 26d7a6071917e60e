"""The comparison where the second of a pair is slower, where the start is cold, and where noise lasts longer."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from verdicts import ours
from verdicts.cells import Cell, comparison
from verdicts.simulation import over_traces, simulate

if TYPE_CHECKING:
    from collections.abc import Sequence

    from verdicts.decisions import Tally
    from verdicts.draws import Noise
    from verdicts.trace import Trace

PAIRED_T = "interleaved paired t, n=50"
RULES = {ours.COMPARE: "vperf", PAIRED_T: "paired t, always A first"}
SLOWDOWNS = (0.0, 2.0, 5.0)


def scenarios(noise: Noise) -> dict[str, Noise]:
    """The noise of the main tables, and what else there may be."""
    return {
        "as above": noise,
        "second of a pair +3 %": replace(noise, position=0.03),
        "second of a pair +20 %": replace(noise, position=0.20),
        "first call +50 %, falling": replace(noise, warm_up=0.5),
        "mean block of 20": replace(noise, block=20.0),
        "mean block of 500": replace(noise, block=500.0),
    }


def robustness(traces: Sequence[Trace], decisions: int, noise: Noise) -> dict[Cell, Tally]:
    """The counts of two rules at a tolerance of 2 %, in each scenario."""
    table = comparison(2.0)
    cells = [Cell(table, rule, slowdown) for rule in RULES for slowdown in SLOWDOWNS]
    found: dict[Cell, Tally] = {}
    for name, changed in scenarios(noise).items():
        tallies = over_traces(simulate(traces, decisions, changed, cells))
        for rule, label in RULES.items():
            for slowdown in SLOWDOWNS:
                key = Cell("robustness", f"{label}: {name}", slowdown)
                found[key] = tallies[Cell(table, rule, slowdown)]
    return dict(sorted(found.items(), key=lambda item: item[0].rule.split(":")[0], reverse=True))
