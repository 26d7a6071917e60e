"""The tables of a run, and the text of a refuted claim."""

from __future__ import annotations

from typing import Any

import pytest

from pytest_vperf.reporting import words
from pytest_vperf.reporting.summary import counts_line, failure_text, machine_line
from pytest_vperf.reporting.tables import (
    beside_tables,
    claims_table,
    phases_table,
    remarks,
    render,
    with_rows,
)
from pytest_vperf.results.record import ClaimRecord, Hardware, unmeasured


def record(**changes: Any) -> ClaimRecord:
    base = unmeasured(
        "startup.pod.tcg.qboot",
        "no pod here",
        target="pod tcg qboot",
        nodeid="t.py::t",
        started_at="now",
        budget=60,
        seed=1,
    )
    base.update(changes)  # type: ignore[typeddict-item]
    return base


HELD = record(
    verdict="holds",
    reason="not shown",
    unit="ms",
    criterion="≤ 1450 ms",
    statistic="median",
    threshold=1450.0,
    estimate=1367.24,
    interval=[1344.1, 1390.3],
    n=5,
    phases={"process": 30.0, "kernel": 1337.24},
)
REFUTED = record(
    verdict="refuted",
    reason="the interval is above the limit",
    summary="it starts quickly",
    unit="ms",
    samples=[1500.0 + number for number in range(14)],
    criterion="≤ 1450 ms",
    statistic="median",
    threshold=1450.0,
    estimate=1506.5,
    interval=[1490.0, 1523.0],
    confidence=0.98,
    gap=56.5,
    gap_percent=3.897,
    n=14,
    source="000.txt §1.1 (mean 1367 ms)",
    hardware=Hardware(
        profile="type1",
        location="thresholds/type1.yaml:7",
        matches=False,
        mismatches=["cpu_model is X, not Y", "logical_cpus is 2, not 8"],
    ),
    warnings=["something to know"],
)


def test_a_table_has_a_row_for_each_verdict() -> None:
    table = claims_table([HELD, REFUTED, record(verdict="not measured")], 110)
    assert render([table], width=110, colour=False) == [
        "verdict               claim                   measured               limit        n   target",
        "─" * 99,
        "holds                 startup.pod.tcg.qboot   1367 ms [1344, 1390]   ≤ 1450 ms    5   pod tcg qboot",
        "refuted (not type1)   startup.pod.tcg.qboot   1506 ms [1490, 1523]   ≤ 1450 ms   14   pod tcg qboot",
        "not measured          startup.pod.tcg.qboot   -                      -            0   pod tcg qboot",
    ]


def test_a_narrow_table_folds_and_loses_nothing() -> None:
    lines = render([claims_table([HELD], 60)], width=60, colour=False)
    assert all(len(line) <= 60 for line in lines)
    assert "1367 ms [1344, 1390]" in "\n".join(lines)


def said(*records: ClaimRecord, verbose: bool = False) -> list[str]:
    """What is said below the table of these claims."""
    found = remarks(records, 100, verbose=verbose)
    return render([found], width=100, colour=False) if found else []


def test_remarks_say_why_below_the_table() -> None:
    assert said(HELD, REFUTED, record(reason="first\nsecond")) == [
        "startup.pod.tcg.qboot:  the interval is above the limit",
        "startup.pod.tcg.qboot:  something to know",
        "startup.pod.tcg.qboot:  first",  # what was not measured comes last
    ]
    assert said(HELD) == []


def test_only_whole_names_are_left_out_of_a_reason() -> None:
    for_a, for_b = (
        record(
            name=name, reason=f"no threshold for {name} but {name}.more and {name}s; see {name}."
        )
        for name in ("start.a", "start.b")
    )
    assert said(for_a, for_b)[:2] == [
        "start.a:  no threshold for start.a but start.a.more and start.as; see start.a.",
        "start.b:  no threshold for start.b but start.b.more and start.bs; see start.b.",
    ]


def test_reasons_of_different_verdicts_are_said_apart() -> None:
    assert said(record(), record(), record(verdict="inconclusive")) == [
        "startup.pod.tcg.qboot:    no pod here",
        "not measured (2 claims):  no pod here: startup.pod.tcg.qboot",
    ]


def test_warnings_that_ask_for_something_else_are_said_apart() -> None:
    warnings = ("far: 2 s: wait", "far: 3 s: wait", "far: 3 s: run", "odd")
    records = [record(name=f"a.{k}", reason="", warnings=[each]) for k, each in enumerate(warnings)]
    assert said(*records) == [
        "2 claims:  far: wait; `-v` names them",
        "a.2:       far: 3 s: run",
        "a.3:       odd",
    ]
    assert said(*records, verbose=True)[0] == "2 claims:  far: wait: a.0, a.1"


def test_foreign_names_and_reasons_are_escaped() -> None:
    hostile = [record(name=f"a\x1b[2J{k}\nb", reason="\x1b]0;x\x07 | y") for k in range(2)]
    assert said(*hostile) == [
        r"not measured (2 claims):  \x1b]0;x\x07 | y: a\x1b[2J0 b, a\x1b[2J1 b",
    ]


def test_phases_are_shown_for_each_start() -> None:
    table = phases_table([HELD, REFUTED, record(phases={"agent": 1.5}, statistic="ratio")])
    assert table is not None
    assert render([table], width=100, colour=False) == [
        "phases of a start, mean in ms      process   kernel   agent    sum",
        "─" * 66,
        "startup.pod.tcg.qboot                   30     1337       -   1367",
        "startup.pod.tcg.qboot, first arm         -        -     1.5    1.5",
    ]
    assert phases_table([REFUTED]) is None


def sampled(arm: str, warm_up: bool = False, **beside: tuple[str, list[float]]) -> dict[str, Any]:
    return {
        "arm": arm,
        "warm_up": warm_up,
        "beside": {
            name: {"unit": unit, "values": values} for name, (unit, values) in beside.items()
        },
    }


def test_the_table_of_extra_figures() -> None:
    times = record(
        statistic="ratio",
        observations=[
            sampled("a", True, p50=("us", [900])),
            sampled("a", p50=("us", [10]), p99=("us", [30])),
            sampled("b", p50=("us", [5]), p99=("us", [7])),
            sampled("a", p50=("us", [12]), p99=("us", [50])),
            sampled("a", p50=("us", [90]), p99=("us", [40])),
        ],
    )
    many = record(
        observations=[
            sampled("a", each=("s", [3, 1, 2]), start_spread=("ms", [4])),
            sampled("a", each=("s", [3, 9, 2]), start_spread=("ms", [6])),
        ]
    )
    loaded = record(observations=[sampled("a", p50=("us", [8]), load=("%", [40]))])
    tables = beside_tables([times, many, loaded, record()])
    assert render(tables, width=100, colour=False) == [
        "beside the samples, median          p50, us   p99, us   load, %",
        "─" * 63,
        "startup.pod.tcg.qboot, first arm         12        40         -",
        "startup.pod.tcg.qboot, second arm         5         7         -",
        "startup.pod.tcg.qboot                     8         -        40",
        "",
        "beside the samples, median       each, s   start spread, ms",
        "─" * 59,
        "startup.pod.tcg.qboot        1 … 2.5 … 9                  5",
    ]


def test_colour_only_where_it_is_asked_for() -> None:
    assert "\x1b[32mholds" in "\n".join(render([claims_table([HELD], 60)], width=100, colour=True))
    assert "\x1b" not in "\n".join(render([claims_table([HELD], 60)], width=100, colour=False))


def test_the_failure_text_shows_the_evidence() -> None:
    fingerprint = {"cpu_model": "X", "logical_cpus": "2", "memory": "4 GiB", "kernel": "6.1"}
    assert failure_text(REFUTED, fingerprint).splitlines() == [
        "startup.pod.tcg.qboot is refuted: measured 1506 ms, claimed ≤ 1450 ms",
        "  claim     startup.pod.tcg.qboot: it starts quickly",
        "  measured  median 1506 ms [1490, 1523] at 98 % confidence",
        "  limit     median ≤ 1450 ms",
        "  gap       +56.5 ms (+3.897 %)",
        "  samples   14: 1500, 1501, 1502, 1503, 1504, 1505, 1506, 1507, 1508, 1509, 1510, 1511,"
        " … 2 more ms",
        "  target    pod tcg qboot",
        "  why       the interval is above the limit",
        "  source    000.txt §1.1 (mean 1367 ms)",
        "  profile   type1 (thresholds/type1.yaml:7)",
        "  differs   cpu_model is X, not Y; logical_cpus is 2, not 8",
        "  machine   X, 2 CPUs, 4 GiB, kernel 6.1",
        "  note      something to know",
    ]


def test_the_failure_text_has_the_end_of_the_interval_that_is_known() -> None:
    half: ClaimRecord = {**REFUTED, "interval": [1490.0, None]}
    (line,) = [each for each in failure_text(half, None).splitlines() if "measured  " in each]
    assert line == "  measured  median 1506 ms [≥ 1490] at 98 % confidence"


def test_an_emulated_machine_says_so() -> None:
    assert machine_line({"cpu_model": "X", "emulated": "yes"}) == "X, emulated"


@pytest.mark.parametrize(
    ("changes", "text"),
    [
        ({"estimate": None, "samples": []}, "-"),
        ({"estimate": None, "samples": [3.5]}, "3.5 ms"),
        ({"interval": None}, "1367 ms"),
        ({"interval": [None, 1390.3]}, "1367 ms [≤ 1390]"),
        ({"interval": [1344.1, None]}, "1367 ms [≥ 1344]"),
        ({"unit": "", "estimate": 1.0, "interval": [None, 1.02]}, "1 [≤ 1.02]"),
        ({"unit": "", "estimate": 1.25, "interval": [1.2, 1.3]}, "1.25 [1.2, 1.3]"),
    ],
)
def test_measured_figures(changes: dict[str, Any], text: str) -> None:
    assert words.measured({**HELD, **changes}) == text  # type: ignore[typeddict-item]


def test_verdicts_are_counted_in_one_line() -> None:
    records = [HELD, record(), REFUTED, HELD, record(verdict="not comparable")]
    assert counts_line(records) == (
        "claims: 2 held, 1 refuted, 1 not comparable, 1 not measured; 1 judged by the profile of other hardware"
    )


def test_of_very_many_claims_those_that_do_not_hold_have_rows_first() -> None:
    claims = [{**HELD, "name": f"claim.{number}"} for number in range(300)]
    claims[298] = {**REFUTED, "name": "claim.298"}
    claims[299] = {**record(), "name": "claim.299"}
    shown = [each["name"] for each in with_rows(claims)]  # type: ignore[arg-type]
    assert shown == [*(f"claim.{number}" for number in range(198)), "claim.298", "claim.299"]
    assert with_rows(claims[:200]) == claims[:200]  # type: ignore[arg-type]
