"""The one figure of a claim in a run: whose it is, in which unit, and which one counts where there are several."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, cast

from pytest_vperf.results.levels import Level, levels
from pytest_vperf.results.record import unmeasured

if TYPE_CHECKING:
    from pytest_vperf.results.record import ClaimRecord


def record(name: str, **values: Any) -> ClaimRecord:
    found = unmeasured(
        name, "", target="", nodeid="t", started_at="2026-11-26T09:00:00", budget=60, seed=1
    )
    return cast("ClaimRecord", {**found, **values})


def arm(estimate: float, n: int = 9) -> dict[str, Any]:
    return {"estimate": estimate, "n": n, "unit": "ms", "interval": None, "phases": {}}


def test_a_limit_has_its_statistic() -> None:
    held = record("start", estimate=92.5, unit="ms", n=8, better="lower")
    assert levels([held]) == [Level("start", "", 92.5, "ms", "lower", 8)]


def test_a_comparison_has_its_ratio_and_not_its_arms() -> None:
    alike = record("alike", estimate=1.01, n=20, arms={"a": arm(101), "b": arm(100)})
    assert levels([alike]) == [Level("alike", "", 1.01, "", "", 20)]


def test_a_gate_has_the_figure_of_each_side_whatever_else_was_judged() -> None:
    """A limit is judged on head alone, too; the comparison has both, from the same samples."""
    sides = {"a": "head", "b": "base"}
    gate = record("start", estimate=1.2, n=9, sides=sides, arms={"a": arm(120), "b": arm(100)})
    held = record("start", estimate=119, unit="ms", n=8, sides={"a": "head"})
    assert [each[:4] for each in levels([gate, held])] == [
        ("start", "base", 100, "ms"),
        ("start", "head", 120, "ms"),
    ]
    assert levels([held, gate]) == levels([gate, held])


def test_what_was_not_measured_has_none() -> None:
    assert levels([record("start"), record("other", estimate=1.0, unit="ms")]) == []


def test_of_a_claim_that_was_judged_again_the_last_figure_counts() -> None:
    first, again = (record("start", estimate=each, unit="ms", n=5) for each in (1.0, 2.0))
    assert [each.value for each in levels([first, again])] == [2.0]
