"""The tables of a filled host."""

from __future__ import annotations

from fillings import filling

from pytest_vperf.reporting.tables import costs_table, curves_table, fillings_table, reasons, render
from pytest_vperf.results.record import FillingRecord, Reading, Spread, spread


def shown(*records: FillingRecord, width: int = 170) -> list[str]:
    tables = [fillings_table(records), costs_table(records), reasons(records, width)]
    return render([table for table in tables if table is not None], width=width, colour=False)


def test_a_row_for_each_host_that_was_filled() -> None:
    lines = shown(filling())
    titles = "density count stopped by VmRSS Pss VmSize total used free"
    assert " ".join(lines[0].split()) == titles
    row = "pod tcg qboot 27 oom 210/220/231 180/190/200 1200/1200/1200 470/470/470 40/41/42 428/429/430"
    assert " ".join(lines[2].split()) == row


def test_the_cost_of_one_more_target_and_of_many() -> None:
    text = "\n".join(shown(filling()))
    assert "218 [210, 225.5]" in text
    assert "1023 take, GiB" in text
    # 217 MiB * 1023 / 1024: of their group, which accounts for all of them
    assert "  216.8  " in text
    assert "61.5 s" in text
    assert "0.42 s" in text


def test_where_the_group_does_not_hold_all_the_host_says_what_many_take() -> None:
    outside = filling()
    outside["outside"] = True
    # 218 MiB * 1023 / 1024
    assert "217.8 [209.8, 225.3]" in "\n".join(shown(outside))


def test_the_reason_is_shown_below_the_table() -> None:
    assert shown(filling())[-1] == f"pod tcg qboot:  {filling()['why']}"


def readings(*used: int) -> list[Reading]:
    """Readings with these MiB used in the group, and twice as much on the host."""
    return [
        Reading(n=2 * k, at_s=float(k), available=(20 << 30) - (mib << 21), group_used=mib << 20)
        for k, mib in enumerate(used)
    ]


def curve_of(*records: FillingRecord) -> list[list[str]]:
    table = curves_table(records)
    assert table is not None
    return [line.split() for line in render([table], width=170, colour=False)[2:]]


def test_the_memory_taken_is_a_curve() -> None:
    one = filling()
    one["curve"] = readings(10, 110, 210)
    assert curve_of(one) == [
        ["pod", "tcg", "qboot", "0", "0"],
        ["2", "100", "█" * 20],
        ["4", "200", "█" * 40],
    ]


def test_the_curve_is_the_hosts_where_the_group_does_not_hold_all() -> None:
    one = filling()
    one["curve"], one["outside"] = readings(0, 100), True
    assert [row[-2:-1] for row in curve_of(one)[1:]] == [["200"]]


def test_a_long_curve_is_thinned_out_and_keeps_its_ends() -> None:
    one = filling()
    one["curve"] = readings(*range(0, 1001))
    counts = [row[-3] if len(row) > 2 else row[0] for row in curve_of(one)[1:]]
    assert (len(counts), counts[-1]) == (8, "2000")


def test_without_readings_there_is_no_curve() -> None:
    assert curves_table([filling()]) is None
    empty = filling()
    empty["curve"] = []
    assert curves_table([empty]) is None


def test_unknown_figures_are_dashes() -> None:
    few = filling()
    few["process"], few["inside"], few["cost"], few["teardown_s"] = {}, {}, None, None
    few["held"], few["watched"] = False, "no root"
    lines = shown(few)
    assert lines[2].split() == ["pod", "tcg", "qboot", "27", "oom", "-", "-", "-", "-", "-", "-"]
    assert lines[-1].endswith("no control group holds them all, they were watched: no root")


def test_a_spread_has_its_mean() -> None:
    assert spread([1.0, 2.0, 6.0]) == Spread(min=1.0, mean=3.0, max=6.0)
