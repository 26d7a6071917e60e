"""Counts, rates and their bounds, the tables, and the metrics with their gate."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from verdicts import ours
from verdicts.cells import Cell, all_cells, comparison
from verdicts.decisions import (
    HOLDS,
    REFUTED,
    UNDECIDED,
    Decisions,
    Tally,
    lower_bound,
    upper_bound,
)
from verdicts.goals import EFFORTS, RATES, gate, score_table, scores
from verdicts.tables import percent, rates, verdict_table

BEST = Tally(holds=10_000, samples=10_000 * 20, squares=10_000 * 400)


def perfect() -> dict[Cell, Tally]:
    """A rule that is never wrong and takes few samples."""
    tallies = dict.fromkeys(all_cells(), BEST)
    refuted = Tally(refuted=10_000, samples=10_000 * 20, squares=10_000 * 400)
    for cell in list(tallies):
        if cell.truth in (5.0, 10.0, 80.0, 90.0):
            tallies[cell] = refuted
    tallies[Cell(comparison(2.0), ours.COMPARE, 2.0)] = Tally(undecided=10_000, samples=9)
    return tallies


def outcome(tallies: dict[Cell, Tally], name: str) -> str:
    (found,) = [score for score in scores(tallies) if score.name == name]
    return found.outcome


def test_decisions_are_counted() -> None:
    made = Decisions(
        np.array([HOLDS, REFUTED, REFUTED, UNDECIDED], dtype=np.int8), np.array([1, 2, 3, 4])
    )
    assert Tally.of(made) == Tally(holds=1, refuted=2, undecided=1, samples=10, squares=30)
    assert (Tally.of(made) + Tally(holds=1, samples=5, squares=25)).mean_samples == 3.0
    assert Tally.of(made).samples_error == pytest.approx((1.25 / 4) ** 0.5)


@pytest.mark.parametrize(
    ("count", "total", "bound"),
    [(0, 300, 0.00994), (0, 7000, 0.000428), (7000, 7000, 1.0), (5, 100, 0.1023)],
)
def test_upper_bounds_are_clopper_pearsons(count: int, total: int, bound: float) -> None:
    assert upper_bound(count, total) == pytest.approx(bound, rel=1e-2)
    assert lower_bound(total - count, total) == pytest.approx(1 - bound, rel=1e-2)


@pytest.mark.parametrize(
    ("count", "total", "text"),
    [
        (0, 7000, "<0.04"),
        (0, 40, "<7.2"),
        (7000, 7000, "100"),
        (6999, 7000, "99.99"),
        (3, 7000, "0.04"),
        (120, 5000, "2.4"),
    ],
)
def test_a_rate_claims_no_more_than_was_seen(count: int, total: int, text: str) -> None:
    assert percent(count, total) == text


def test_a_table_has_a_row_for_each_rule_and_a_column_for_each_difference() -> None:
    tallies = {
        Cell("t", "one", 0.0): Tally(holds=39, undecided=1, samples=4000),
        Cell("t", "one", 5.0): Tally(refuted=40, samples=1600),
        Cell("t", "another", 5.0): Tally(refuted=20, holds=20, samples=400),
    }
    assert verdict_table("A title", "d={} %", tallies).splitlines() == [
        "A title",
        "                 d=0 %           d=5 %  samples",
        "rule                                          0   5",
        "one      <7.2/97.5/2.5   100/<7.2/<7.2      100  40",
        "another              -  50.0/50.0/<7.2        -  10",
    ]
    assert rates(Tally(refuted=1, holds=1, undecided=2)) == "25.0/25.0/50.0"


def test_a_rule_without_error_reaches_every_aim() -> None:
    found = scores(perfect())
    assert {score.outcome for score in found} == {"aim"}
    assert len(found) == len(RATES) + len(EFFORTS)
    assert gate(found, strict=True) == 0


def test_none_of_few_decisions_is_not_taken_for_proof() -> None:
    few = {cell: replace(tally, holds=40) for cell, tally in perfect().items() if tally is BEST}
    (found, *_) = scores(perfect() | few)
    assert (found.outcome, found.shown, found.bound) == ("aim", "no", "< 7.2 %")
    (found, *_) = scores(perfect())
    assert (found.shown, found.bound) == ("yes", "< 0.03 %")


@pytest.mark.parametrize(
    ("truth", "tally", "metric", "expected"),
    [
        (0.0, Tally(holds=9985, refuted=15, samples=1), "false alarm, d = 0", "pass"),
        (0.0, Tally(holds=9975, refuted=25, samples=1), "false alarm, d = 0", "open"),
        (0.0, Tally(holds=9950, refuted=50, samples=1), "false alarm, d = 0", "FAIL"),
        (2.0, Tally(undecided=9800, holds=200, samples=1), "miss, d = tolerance", "FAIL"),
        (5.0, Tally(undecided=200, refuted=9800, samples=1), "found, d = 5 %", "FAIL"),
        (0.0, Tally(undecided=400, holds=9600, samples=1), "holds, d = 0", "pass"),
        (0.0, Tally(holds=100, samples=20_000), "samples, d = 0", "FAIL"),
        (0.0, Tally(holds=100, samples=20_000, squares=20_000**2), "samples, d = 0", "open"),
        (10.0, Tally(refuted=100, samples=4_000), "samples, d = 10 %", "pass"),
    ],
)
def test_a_metric_that_is_missed_is_told_from_one_that_may_be(
    truth: float, tally: Tally, metric: str, expected: str
) -> None:
    tallies = perfect()
    tallies[Cell(comparison(2.0), ours.COMPARE, truth)] = tally
    assert outcome(tallies, metric) == expected
    found = scores(tallies)
    assert gate(found, strict=False) == int(expected == "FAIL")
    assert gate(found, strict=True) == int(expected in ("open", "FAIL"))


def test_the_table_of_metrics_names_what_was_seen_and_what_must_be() -> None:
    tallies = perfect()
    tallies[Cell(comparison(2.0), ours.COMPARE, 0.0)] = Tally(holds=9950, refuted=50, samples=10**6)
    lines = score_table(scores(tallies)).splitlines()
    assert lines[0].split("  ")[0] == "metric"
    assert lines[1].split() == [
        *("false", "alarm,", "d", "=", "0", "10000", "50", "=", "0.5", "%"),
        *("<", "0.6", "%", "≤", "0.2", "%", "≤", "0.02", "%", "no", "FAIL"),
    ]
