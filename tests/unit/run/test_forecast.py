"""What a verdict is expected to need, and when a claim is given up for it."""

from __future__ import annotations

from typing import Any

import pytest

from pytest_vperf.claims.sampling import Need, need, part_of_need, rough_time
from pytest_vperf.stats.rule import State


def state(samples: int, forecast: int | None, at_best: int | None) -> State:
    return State(
        False,
        "inconclusive",
        "",
        None,
        None,
        None,
        0.98,
        samples,
        forecast,
        forecast_at_best=at_best,
    )


@pytest.mark.parametrize(
    ("samples", "forecast", "at_best", "spent", "budget", "expected"),
    [
        (10, None, None, 1.0, 60.0, None),
        (7, 100, 20, 1.0, 60.0, None),  # too early to say
        (8, 120, 20, 4.0, 60.0, Need(120, 60.0, hopeless=False)),
        (10, 10, 10, 4.0, 60.0, None),  # nothing more is needed
        (15, 9000, 900, 15.0, 60.0, Need(9000, 9000.0, hopeless=False)),  # too early to give up
        (16, 9000, 900, 16.0, 60.0, Need(9000, 9000.0, hopeless=True)),
        (16, 9000, 60, 16.0, 60.0, Need(9000, 9000.0, hopeless=False)),  # it may be decided sooner
        (20, 140, None, 20.0, 90.0, Need(140, 140.0, hopeless=True)),
        (20, 140, 60, 20.0, 60.0, Need(140, 140.0, hopeless=False)),  # 40 s are left
        (20, 140, 61, 20.0, 60.0, Need(140, 140.0, hopeless=True)),
        (16, 40, 32, 16.0, 16.0, Need(40, 40.0, hopeless=True)),
    ],
)
def test_the_need_follows_from_forecast_and_budget(
    samples: int,
    forecast: int | None,
    at_best: int | None,
    spent: float,
    budget: float,
    expected: Need | None,
) -> None:
    assert need(state(samples, forecast, at_best), spent, budget) == expected


@pytest.mark.parametrize(
    ("seconds", "text"),
    [
        (0.04, "0.04 s"),
        (0.42, "0.4 s"),
        (40.2, "40 s"),
        (119.6, "120 s"),
        (420, "7 min"),
        (7199, "120 min"),
        (9000, "2 h"),
    ],
)
def test_times_are_shown_roughly(seconds: float, text: str) -> None:
    assert rough_time(seconds) == text


HOPELESS = """
    import itertools, time
    from pytest_vperf.quantity import Quantity

    def test_it(claim):
        wild = itertools.cycle([40, 300, 80, 150, 55, 220, 105, 115])  # about the threshold
        def sample():
            time.sleep(0.01)
            return Quantity(next(wild), "ms")
        claim("start.alike").compares(sample, to=lambda: Quantity(100, "ms", discrete=True))
"""


def test_a_hopeless_claim_is_given_up_early(project: pytest.Pytester) -> None:
    import json

    project.makepyfile(HOPELESS)
    result = project.runpytest("--claims-json=out.json", "--claims-budget=2 s", "-rs")
    found: dict[str, Any]
    (found,) = json.loads((project.path / "out.json").read_text())["claims"]
    assert found["verdict"] == "inconclusive"
    assert found["cause"] == "budget"
    assert 16 <= found["n"] < 160
    assert found["duration_s"] < 1.8
    result.stdout.re_match_lines(
        [r"start\.alike: +needs about \d+ pairs, \d+ (s|min|h); budget 2 s.*"]
    )


@pytest.mark.parametrize(
    ("samples", "forecast", "noun", "said"),
    [
        (8, 9, "pair", "8 of about 9 pairs judged"),
        (16, 1594, "sample", "16 of about 1600 samples judged"),
        (0, 1, "pair", "0 of about 1 pair judged"),
        (9, 9, "pair", ""),
        (9, None, "pair", ""),
    ],
)
def test_the_judged_share_of_the_need_is_shown(
    samples: int, forecast: int | None, noun: str, said: str
) -> None:
    assert part_of_need(state(samples, forecast, None), noun) == said
