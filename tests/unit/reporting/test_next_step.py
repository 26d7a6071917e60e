"""The last line of a run: how many verdicts there are, and the command that gets more."""

from __future__ import annotations

from typing import Any, cast

import pytest

from pytest_vperf.reporting.summary import next_step
from pytest_vperf.results.record import ClaimRecord


def record(
    verdict: str, reason: str = "", budget: float = 60.0, cause: str = "budget"
) -> ClaimRecord:
    made: dict[str, Any] = {"verdict": verdict, "reason": reason, "budget_s": budget}
    made |= {"cause": cause, "sides": {}, "arms": {}}
    return cast(ClaimRecord, made)


def between_sides(record: ClaimRecord) -> ClaimRecord:
    plan = {"tolerance": 0.05}
    return cast(ClaimRecord, {**record, "sides": {"a": "head", "b": "base"}, "plan": plan})


HOLDS, REFUTED = record("holds"), record("refuted", "too slow")
ABSENT = record("not measured", "runx is not installed: apt-get install runx")
BROKEN = record("not measured", "error: ValueError: no")
SHORT = record("inconclusive", "budget of 90 s spent", 90.0)
CONSTANT = record("inconclusive", cause="no variance")
FEW = record("inconclusive", "the benchmark took 3 rounds", cause="too few samples")
ELSEWHERE = record("not comparable", "no published figure")


@pytest.mark.parametrize(
    ("records", "line"),
    [
        (
            [HOLDS, ABSENT, SHORT, ELSEWHERE],
            "claims: 1 verdict of 4; next: vperf doctor (1 could not be measured)",
        ),
        (
            [HOLDS, REFUTED, BROKEN, record("inconclusive"), SHORT],
            "claims: 2 verdicts of 5; next: --claims-budget=180s (2 undecided)",
        ),
        (
            [HOLDS, CONSTANT, FEW],
            "claims: 1 verdict of 3; next: --claims-json=run.json, then vperf claims run.json",
        ),
        (
            [ELSEWHERE],
            "claims: 0 verdicts of 1; next: vperf calibrate --hw=NAME (1 without a limit)",
        ),
        (
            [HOLDS, REFUTED],
            "claims: 2 verdicts of 2; next: --claims-json=run.json, then vperf claims run.json",
        ),
    ],
)
def test_it_names_what_stands_in_the_way(records: list[ClaimRecord], line: str) -> None:
    assert next_step(records) == line


def test_a_kept_record_is_read_next() -> None:
    assert next_step([HOLDS], kept="my runs/run.json") == (
        "claims: 1 verdict of 1; next: vperf claims 'my runs/run.json'"
    )


def test_a_gate_is_no_verdict_on_a_claim() -> None:
    found = [between_sides(HOLDS), between_sides(ELSEWHERE)]
    assert next_step(found) == (
        "claims: 1 verdict of 2; next: --claims-json=run.json, for every sample"
    )
    assert next_step(found, kept="run.json") == "claims: 1 verdict of 2"
