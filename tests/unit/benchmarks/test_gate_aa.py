"""A build compared with itself: which results count as alarms, and which as no comparison."""

from __future__ import annotations

from collections import Counter
from typing import Any

import gate_aa
import pytest


def claim(**values: Any) -> dict[str, Any]:
    usual = {"name": "gate.startup.pod.tcg", "verdict": "holds", "estimate": 1.0123, "reason": ""}
    return {**usual, **values}


def test_a_comparison_is_a_line() -> None:
    assert gate_aa.line(2, claim(reason="20 pairs")) == (
        "  2  holds          gate.startup.pod.tcg         ratio 1.0123   20 pairs"
    )
    missing = claim(verdict="not measured", estimate=None, reason="no /dev/kvm")
    assert gate_aa.line(1, missing) == (
        "  1  not measured   gate.startup.pod.tcg         -              no /dev/kvm"
    )


@pytest.mark.parametrize(
    ("counts", "broken", "status", "said"),
    [
        (
            {"holds": 22, "inconclusive": 2, "not measured": 3},
            0,
            0,
            "22 holds, 2 inconclusive, 3 not measured\n0 of 24 comparisons refuted (≤ 11.7 %)\n",
        ),
        (
            {"holds": 7, "refuted": 1},
            0,
            1,
            "7 holds, 1 refuted\n1 of 8 comparisons refuted (≤ 47.1 %)\n",
        ),
        ({"not measured": 8}, 0, 1, "8 not measured\n"),
        ({}, 1, 1, "nothing\n1 rounds broke\n"),
    ],
)
def test_the_conclusion_counts_alarms_and_broken_rounds(
    capsys: pytest.CaptureFixture[str],
    counts: dict[str, int],
    broken: int,
    status: int,
    said: str,
) -> None:
    assert gate_aa.conclude(Counter(counts), broken) == status
    assert capsys.readouterr().out == said


@pytest.mark.parametrize("status", [0, 1])
def test_a_round_without_claims_is_broken(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], status: int, tmp_path: Any
) -> None:
    monkeypatch.setattr(gate_aa, "play", lambda *_: status)
    arguments = [
        "gate_aa.py",
        "--rounds=1",
        "--base=runtime=runc",
        f"--json={tmp_path / 'kept'}",
    ]
    monkeypatch.setattr("sys.argv", arguments)
    assert gate_aa.main() == 1
    assert capsys.readouterr().out == (
        f"round 1 ended with status {status}\nnothing\n1 rounds broke\n"
    )
