"""Which samples of a known truth count on a machine whose hypervisor steals some of its time."""

from __future__ import annotations

import itertools

import known_truth
import pytest
from known_truth import Table, judge


def _judge(table: Table, value: float | None = 1.0, bearable: float = known_truth.STOLEN) -> None:
    judge(
        table,
        setting="a cap",
        target="host",
        read_back="cap 1",
        measured=lambda: value,
        expected=1.0,
        within=0.02,
        budget=0.2,
        bearable=bearable,
    )


@pytest.fixture(autouse=True)
def _two_percent_are_stolen(monkeypatch: pytest.MonkeyPatch) -> None:
    looks = itertools.count()
    monkeypatch.setattr(
        known_truth, "_account", lambda: [98 * (n := next(looks)), 0, 0, 0, 0, 0, 0, 2 * n]
    )


def test_insensitive_measurements_tolerate_more_steal() -> None:
    table = Table()
    _judge(table, bearable=0.03)
    (row,) = table.rows
    assert (row.verdict, row.disturbed) == ("holds", 0)


def test_sensitive_measurements_are_skipped_under_steal() -> None:
    table = Table()
    with pytest.raises(pytest.skip.Exception, match="samples were disturbed, by a hypervisor"):
        _judge(table)
    (row,) = table.rows
    assert row.verdict == "not measured: CPU time stolen"


def test_a_sample_that_does_not_count_is_dropped() -> None:
    table = Table()
    with pytest.raises(pytest.skip.Exception, match="or by a late start"):
        _judge(table, value=None, bearable=0.03)
    assert table.rows[0].disturbed > 0
