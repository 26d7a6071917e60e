"""What a terminal has room for: names and sentences are wrapped, figures never."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
from fillings import filling
from hypothesis import given
from hypothesis import strategies as st
from rich.cells import cell_len

from pytest_vperf import foreign_text
from pytest_vperf.reporting import words
from pytest_vperf.reporting.layout import broken, wrapped
from pytest_vperf.reporting.tables import (
    beside_tables,
    claims_table,
    costs_table,
    curves_table,
    fillings_table,
    phases_table,
    reasons,
    remarks,
    render,
    sweeps_table,
)
from pytest_vperf.results.record import Cost, FillingRecord, Reading, Spread, unmeasured

if TYPE_CHECKING:
    from collections.abc import Sequence

    from pytest_vperf.results.record import ClaimRecord

SIXTY = "response.loaded_both.container.runc/percentiles_of_all[p=99]"
LONG = f"{SIXTY}{SIXTY}"


def record(name: str, **changes: Any) -> ClaimRecord:
    base = unmeasured(
        name, "no pod here", target="", nodeid="t.py::t", started_at="now", budget=60, seed=1
    )
    base.update(changes)  # type: ignore[typeddict-item]
    return base


def figures(name: str, measured: Sequence[float], limit: str, **changes: Any) -> ClaimRecord:
    estimate, low, high = measured
    return record(
        name,
        **{
            "verdict": "holds",
            "reason": "",
            "unit": "ms",
            "criterion": limit,
            "threshold": 1.0,
            "estimate": estimate,
            "interval": [low, high],
            "n": 24,
            "target": "container runc",
            **changes,
        },
    )


RECORDS = [
    figures(SIXTY, (376.2, 370.1, 382.4), "≤ 400 ms (p99)"),
    figures(LONG, (1.012, 0.9993, 1.024), "ratio ≤ 1.1", unit="", verdict="not comparable"),
    record("startup.pod.kvm.qboot", criterion="≤ 400 ms", threshold=400.0),
]
SATURATION = figures(
    "copy.plateau", (90.2, 88.1, 92.5), "saturates near 90 packet/s ± 5 %", unit="packet/s"
)


def shown(records: Sequence[ClaimRecord], width: int | None) -> list[str]:
    return render([claims_table(records, width)], width=width, colour=False)


def test_in_a_pipe_each_row_is_one_line_with_everything() -> None:
    lines = shown([*RECORDS, SATURATION], None)
    assert len(lines) == 6
    assert lines[3].split() == [
        *("not", "comparable", LONG, "1.012", "[0.9993,", "1.024]", "ratio", "≤", "1.1", "24"),
        *("container", "runc"),
    ]


def test_80_columns_have_no_room_for_the_target() -> None:
    assert shown(RECORDS[1:], 80) == [
        "verdict          claim                       measured                limit",
        "────────────────────────────────────────────────────────────────────────────────",
        "not comparable   response.loaded_both.       1.012 [0.9993, 1.024]   ratio ≤ 1.1",
        "                   container.runc/",
        "                   percentiles_of_all",
        "                   [p=99]response.",
        "                   loaded_both.container.",
        "                   runc/percentiles_of_all",
        "                   [p=99]",
        "not measured     startup.pod.kvm.qboot       -                       ≤ 400 ms",
        "no room here for target, n: in the record (--claims-json=FILE), and in the text",
        "  of a refuted claim",
    ]


def test_100_columns_have_room_for_the_number_of_samples() -> None:
    assert shown(RECORDS[:1], 100) == [
        "verdict   claim                                  measured                  limit             n",
        "──────────────────────────────────────────────────────────────────────────────────────────────",
        "holds     response.loaded_both.container.runc/   376.2 ms [370.1, 382.4]   ≤ 400 ms (p99)   24",
        "            percentiles_of_all[p=99]",
        "no room here for target: in the record (--claims-json=FILE), and in the text of a refuted claim",
    ]


def test_a_name_is_above_its_figures_where_it_has_no_room_beside_them() -> None:
    assert shown([RECORDS[0], SATURATION], 80) == [
        "claim",
        "  verdict   measured                     limit",
        "─────────────────────────────────────────────────────────────────────────",
        "response.loaded_both.container.runc/percentiles_of_all[p=99]",
        "  holds     376.2 ms [370.1, 382.4]      ≤ 400 ms (p99)",
        "copy.plateau",
        "  holds     90.2 packet/s [88.1, 92.5]   saturates near 90 packet/s ± 5 %",
        "no room here for target, n: in the record (--claims-json=FILE), and in the text",
        "  of a refuted claim",
    ]
    assert shown([SATURATION], 60) == [
        "copy.plateau",
        "  verdict   holds",
        "  measured  90.2 packet/s [88.1, 92.5]",
        "  limit     saturates near 90 packet/s ± 5 %",
        "no room here for target, n: in the record",
        "  (--claims-json=FILE), and in the text of a refuted claim",
    ]


def test_a_short_table_has_all_its_columns_at_80() -> None:
    assert shown([figures("start.quick", (350, 348, 352), "≤ 400 ms")], 80) == [
        "verdict   claim         measured            limit       n   target",
        "──────────────────────────────────────────────────────────────────────────",
        "holds     start.quick   350 ms [348, 352]   ≤ 400 ms   24   container runc",
    ]


names = st.text(min_size=1, max_size=130) | st.text("ab.-/[]", min_size=1, max_size=130)


@given(
    st.integers(40, 200),
    st.lists(st.tuples(names, st.sampled_from([*RECORDS, SATURATION])), min_size=1, max_size=4),
)
def test_verdict_measured_and_limit_are_never_broken(
    width: int, drawn: list[tuple[str, ClaimRecord]]
) -> None:
    records: list[ClaimRecord] = [{**each, "name": name} for name, each in drawn]
    lines = shown(records, width)
    assert all(line.isprintable() for line in lines)
    for each in records:
        whole = (each["verdict"], words.measured(each), words.limit(each))
        assert any(all(part in line for part in whole) for line in lines) or width < 80
        assert all(any(part in line for line in lines) for part in whole)
    assert all(cell_len(line) <= max(width, 44) for line in lines)  # of the longest limit


@given(st.integers(40, 200), st.lists(st.tuples(names, names), min_size=1, max_size=4))
def test_remarks_have_lines_of_the_width(width: int, drawn: list[tuple[str, str]]) -> None:
    records = [record(name, reason=reason, warnings=[reason]) for name, reason in drawn]
    group = remarks(records, width)
    lines = render([group], width=width, colour=False) if group else []
    assert all(cell_len(line) <= width and line.isprintable() for line in lines)


@given(names, st.integers(1, 60))
def test_a_broken_name_is_whole(name: str, width: int) -> None:
    clean = foreign_text.line(name)
    assert "".join("".join(broken(clean, width)).split()) == "".join(clean.split())


def test_a_name_is_broken_at_its_dots_slashes_and_brackets() -> None:
    assert broken("disk.fio.randread_4k.raw[of=a,b]", 20) == [
        "disk.fio.",
        "  randread_4k.raw",
        "  [of=a,b]",
    ]
    assert broken("x" * 30, 20) == ["x" * 20, "  " + "x" * 10]


def test_a_sentence_keeps_its_indent() -> None:
    assert wrapped("one two three four", 12, first="why  ", indent=5) == [
        "why  one two",
        "     three",
        "     four",
    ]


def far_away() -> FillingRecord:
    """Of a thousand pods, with long names and reasons."""
    big = Spread(min=1210.4, mean=1220.5, max=1231.2)
    return {
        **filling(),
        "name": "pod tcg qboot on a machine far away",
        "count": 1000,
        "stop": "most",
        "why": "1000 run, as many as were asked for (--density-max), and no more of them were started here",
        "most": 1000,
        "curve": [
            Reading(n=2 * k, at_s=float(k), available=0, group_used=k << 27) for k in range(3)
        ],
        "process": {"rss": big, "pss": big, "size": big},
        "inside": {"total": big, "used": big, "free": big},
        "cost": Cost(estimate=4.321, low=3.904, high=4.775, confidence=0.95),
        "cost_in_group": Cost(estimate=0.3848, low=0.3818, high=0.386, confidence=0.95),
    }


def started() -> ClaimRecord:
    phases = ("create", "start", "process", "firmware", "kernel", "agent", "container")
    return record(SIXTY, phases=dict.fromkeys(phases, 1234.5), statistic="median")


def swept() -> ClaimRecord:
    load = {"point": "p1", "asked": 120000.0, "offered": 119987.5, "carried": 90123.0, "n": 6}
    load.update(left_out=2, busiest="vhost-12345 of the machine 98 %")
    sweep = {"shape": "plateau", "flat": [120000.0], "unit": "packet/s", "loads": [load]}
    return record(SIXTY, sweep=sweep)


def answered() -> ClaimRecord:
    beside = {
        name: {"unit": "us", "values": [1234.5, 2345.6, 3456.7]} for name in ("p50", "p95", "p99")
    }
    return record(SIXTY, observations=[{"arm": "a", "warm_up": False, "beside": beside}])


@pytest.mark.parametrize("width", [80, 100])
def test_no_column_of_figures_is_folded(width: int) -> None:
    tables = [
        *(sweeps_table([swept()]), phases_table([started()]), *beside_tables([answered()])),
        *(fillings_table([far_away()]), costs_table([far_away()]), curves_table([far_away()])),
        reasons([far_away()], width),
    ]
    lines = render([each for each in tables if each], width=width, colour=False)
    assert all(cell_len(line) <= width for line in lines)
    text = "\n".join(lines)
    assert "min/mean/max in" in text
    for figure in (
        *("90123 flat", "6 (2 left out)", "8642", "1234 … 2346 … 3457", "1210/1220/1231"),
        *("4.321 [3.904, 4.775]", "0.3848 [0.3818, 0.386]", "61.5 s", "█" * 40),
    ):
        assert figure in text
