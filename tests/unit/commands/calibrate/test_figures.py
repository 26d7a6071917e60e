"""From the records of runs to figures: claims measured in every run, and claims refused by name."""

from __future__ import annotations

from typing import Any

import pytest

from pytest_vperf.commands.calibrate.limits import Measured, calibrated, gather, rounded
from pytest_vperf.commands.calibrate.runs import noise_during


def record(*samples: float, **values: Any) -> dict[str, Any]:
    return {
        "name": "a.b",
        "verdict": "not comparable",
        "reason": "measured for a calibration",
        "criterion": "lower is better",
        "unit": "ms",
        "samples": list(samples) or [1.0, 3.0, 2.0],
        "budget_s": 60.0,
        "nodeid": "test_it.py::test_it",
        **values,
    }


def runs(*claims: list[dict[str, Any]]) -> list[dict[str, Any]]:
    return [{"claims": each} for each in claims]


def test_each_run_gives_one_median() -> None:
    found = gather(runs([record()], [record(4, 2, 3, 1)], [record(0.001, 0.002, 0.006, unit="s")]))
    assert found.refused == found.left_alone == {}
    assert found.measured == [
        Measured("a.b", "at_most", "ms", (2, 2.5, 2), (3, 4, 3), found.measured[0].step, False)
    ]
    assert found.measured[0].step == pytest.approx(1)


def test_equal_samples_are_a_constant_figure() -> None:
    (found,) = gather(runs(*[[record(5, 5, 5, criterion="higher is better")]] * 3)).measured
    assert (found.side, found.step, found.constant) == ("at_least", 0.0, True)


def test_claims_that_need_no_limit() -> None:
    alone = record(criterion="left alone", reason="a comparison", verdict="not measured")
    assert gather(runs([alone], [alone], [])).left_alone == {"a.b": "a comparison"}


@pytest.mark.parametrize(
    ("third", "reason"),
    [
        ([], "not measured in run 3"),
        (
            [record(), record(nodeid="test_it.py::test_other")],
            "measured 2 times in run 3 (test_it.py::test_it and test_it.py::test_other): a limit is for one "
            "thing; give each a name of its own",
        ),
        (
            [record(verdict="not measured", reason="no such machine here")],
            "run 3: not measured: no such machine here",
        ),
        (
            [record(1, 2)],
            "run 3 has 2 samples in its 60 s, and needs at least 3: give it more time, "
            "`-- --claims-budget='5 min'`",
        ),
        ([record(0, 0, 0)], "run 3: its median is 0 ms, and a limit must be above 0"),
        (
            [record(criterion="higher is better")],
            "the direction of its samples changes from run to run",
        ),
        (
            [record(unit="MB")],
            "its unit changes from run to run: MB ([information]) cannot be compared with ms ([time])",
        ),
    ],
)
def test_claims_that_differ_between_runs_are_refused(
    third: list[dict[str, Any]], reason: str
) -> None:
    assert gather(runs([record()], [record()], third)).refused == {"a.b": reason}


@pytest.mark.parametrize(
    ("values", "reason"),
    [
        (
            {"criterion": "none"},
            "its samples have no direction: return Quantity(…, direction='lower'), or 'higher'",
        ),
        (
            {"unit": ""},
            "its samples have no unit: return Quantity(number, 'count') for a plain count",
        ),
        (
            {"name": "Start"},
            "a claim's name is lower-case words with dots between them, e.g. startup.pod.kvm.qboot",
        ),
    ],
)
def test_claims_that_no_limit_can_be_written_for(values: dict[str, Any], reason: str) -> None:
    assert list(gather(runs(*[[record(**values)]] * 3)).refused.values()) == [reason]


@pytest.mark.parametrize(
    ("value", "most", "least"),
    [
        (400.0, "400", "400"),
        (399.911, "400", "399.9"),
        (1.23401, "1.235", "1.234"),
        (123456.0, "123500", "123400"),
        (0.000123456, "0.0001235", "0.0001234"),
        (1.2344e-9, "1.235e-9", "1.234e-9"),
        (9.9999e20, "1.000e+21", "9.999e+20"),
    ],
)
def test_limits_are_rounded_to_the_good_side(value: float, most: str, least: str) -> None:
    assert rounded(value, "at_most") == most
    assert rounded(value, "at_least") == least


def test_a_limit_as_the_file_has_it() -> None:
    measured = Measured("a.b", "at_least", "MB/s", (200.0, 202.0, 198.0), (24,) * 3, 0.1, False)
    found = calibrated(measured, confidence=0.9, next_runs=1)
    assert found.figures == ("200 MB/s", "202 MB/s", "198 MB/s")
    assert found.limit == "195.6 MB/s"
    assert (found.spread, found.margin, found.floored) == ("1 %", "2.2 %", False)


def disturbed(steal: float, throttled: int, window: float = 10.0) -> dict[str, Any]:
    session = {"window_s": window, "steal": steal, "throttled": {"core": throttled}, "load": [9.0]}
    return {"claims": [{"noise": {"sessions": [session, {"window_s": 1.0}]}}]}


def test_disturbances_of_a_run_from_outside() -> None:
    assert noise_during(disturbed(0.009, 0)) == []
    assert noise_during(disturbed(0.5, 0, window=1.0)) == []  # ticks of 10 ms: too short to say
    assert noise_during(disturbed(0.021, 2)) == [
        "steal 2.1 % of CPU time while it was measured",
        "thermal throttling 2 times while it was measured",
    ]
