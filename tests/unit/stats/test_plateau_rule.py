"""The judge of a sweep: rounds of all loads, in sessions, and a verdict with a sentence."""

from __future__ import annotations

import random
from typing import TYPE_CHECKING, Any

import pytest

from pytest_vperf.stats.plateau import PlateauRule

if TYPE_CHECKING:
    from collections.abc import Callable

LOADS = (25.0, 50.0, 75.0, 100.0, 130.0, 200.0, 400.0)


def near(value: float) -> Callable[[float, int], float]:
    return lambda load, session: min(load, value)


def run(
    rule: PlateauRule,
    truth: Callable[[float, int], float],
    *,
    spread: float = 0.005,
    seed: int = 1,
    offered: Callable[[float], bool] = lambda load: True,
) -> list[tuple[float, int, bool]]:
    """Sample until it is decided; what was taken: load, session, whether it was a warm-up."""
    chance, taken, session = random.Random(seed), [], 1
    while not rule.decided:
        if rule.paused:
            session += 1
            rule.resume()
        load = LOADS[rule.point]
        taken.append((load, session, rule.warming_up))
        assert rule.next() == "a"
        rule.loaded(load, offered=offered(load))
        rule.add(truth(load, session) * (1 + chance.gauss(0, spread)))
    return taken


def made(**options: Any) -> PlateauRule:
    return PlateauRule(len(LOADS), **{"value": 90.0, "tolerance": 0.05, **options})


def test_every_load_is_taken_once_in_each_round_and_the_rounds_are_spread() -> None:
    rule = made()
    taken = run(rule, near(90))
    assert [each[1] for each in taken if each[2]] == [1, 2, 3]
    judged = [(load, session) for load, session, warm_up in taken if not warm_up]
    assert len(judged) == rule.state.samples == rule.state.forecast == 7 * 6
    for start in range(0, len(judged), 7):
        assert sorted(load for load, _ in judged[start : start + 7]) == list(LOADS)
    assert [session for _, session in judged] == [1] * 14 + [2] * 14 + [3] * 14
    orders = {tuple(load for load, _ in judged[start : start + 7]) for start in range(0, 42, 7)}
    assert len(orders) > 1
    assert [each[0] for each in taken] == [each[0] for each in run(made(), near(90))]
    assert [each[0] for each in taken] != [each[0] for each in run(made(seed=2), near(90))]


def test_a_plateau_near_its_value_holds() -> None:
    rule = made()
    run(rule, near(90))
    state = rule.state
    assert (state.decision, state.cause) == ("holds", "")
    assert state.reason.startswith("flat over 4 loads, to 400, from a knee at ")
    assert state.reason.endswith(" on; the level is shown inside the band")
    assert state.low is not None
    assert state.high is not None
    assert state.low <= 90 <= state.high
    assert state.estimate == pytest.approx(90, rel=0.01)
    assert state.confidence == 0.98


@pytest.mark.parametrize("value", [80.0, 99.0])
def test_a_plateau_away_from_its_value_is_refuted(value: float) -> None:
    rule = made(value=value)
    run(rule, near(90))
    assert rule.state.decision == "refuted"
    assert rule.state.reason.endswith("; the level is shown outside the band")


def test_on_the_edge_of_the_band_it_is_too_close_to_call() -> None:
    rule = made(value=90 / 1.05)
    run(rule, near(90))
    assert (rule.state.decision, rule.state.cause) == ("inconclusive", "too close to call")
    assert rule.state.reason.startswith(
        "the samples do not show on which side of the band its level lies; flat over 4 loads"
    )


def test_wrong_verdicts_are_as_rare_as_promised() -> None:
    """At the edge of the band neither verdict may come more often than its error; 4 standard errors on top."""
    verdicts = []
    for seed in range(200):
        rule = made(value=90 / 1.05, alpha=0.05, beta=0.05, seed=seed)
        run(rule, near(90), spread=0.02, seed=seed)
        verdicts.append(rule.state.decision)
    most = 10 + 4 * (200 * 0.05 * 0.95) ** 0.5
    assert verdicts.count("refuted") <= most
    assert verdicts.count("holds") <= most


def test_without_a_value_it_is_described() -> None:
    rule = PlateauRule(len(LOADS), sessions=1)
    run(rule, near(90))
    state = rule.state
    assert state.decision == "inconclusive"
    assert state.reason.startswith("no threshold; flat over 4 loads, to 400, from a knee at ")
    assert state.estimate == pytest.approx(90, rel=0.01)
    assert state.confidence == 0.99


def test_a_line_that_still_rises_has_no_level() -> None:
    rule = made()
    run(rule, lambda load, session: load)
    state = rule.state
    assert (state.decision, state.cause) == ("inconclusive", "still rising")
    assert state.reason == (
        "no plateau: it still rises at the greatest load, 400; greater ones are needed"
    )
    assert (state.estimate, state.low, state.high) == (None, None, None)


def test_a_collapse_refutes_and_shows_the_peak() -> None:
    rule = made(value=100.0)
    run(rule, lambda load, session: min(load, 100 * (100 / load) ** 0.8), spread=0.002)
    state = rule.state
    assert state.decision == "refuted"
    assert state.reason.startswith("no plateau: it falls again, from 10")
    assert state.reason.endswith(" at the greatest load, 400 (congestion collapse)")
    assert state.estimate == pytest.approx(100, rel=0.01)


def test_loads_that_the_sender_could_not_offer_do_not_count() -> None:
    rule = made()
    # The sender itself cannot offer more than 60, which makes a plateau of its own.
    run(rule, near(60), offered=lambda load: load <= 60)
    state = rule.state
    assert (state.decision, state.cause) == ("inconclusive", "sender")
    assert state.reason.startswith(
        "the sender could not offer the requested load in 30 samples, from a load of 75 on: nothing is known about "
        "the path behind it; up to 5"
    )
    assert state.estimate is None
    assert rule.short == {75: 6, 100: 6, 130: 6, 200: 6, 400: 6}


def test_a_plateau_below_the_offered_load_counts() -> None:
    rule = made(value=60.0)
    run(rule, near(60), offered=lambda load: load < 200)
    assert rule.state.decision == "holds"
    assert rule.state.reason.startswith("flat over 3 loads, to 130")


def test_sessions_that_do_not_agree_decide_nothing() -> None:
    rule = made(value=90.0, tolerance=0.05)
    run(rule, lambda load, session: min(load, 86 if session == 2 else 84 if session == 3 else 92))
    assert rule.state.decision == "inconclusive"
    assert rule.state.cause in ("sessions disagree", "too close to call")


def test_a_session_whose_sender_never_offered_enough_says_nothing_of_the_level() -> None:
    rule = made()
    session = 1
    while not rule.decided:
        if rule.paused:
            session += 1
            rule.resume()
        load = LOADS[rule.point]
        rule.loaded(load, offered=session != 2 or load < 90)
        rule.add(min(load, 90.0) * (1 + 0.001 * session))
    state = rule.state
    assert (state.decision, state.cause) == ("inconclusive", "sender")
    assert state.reason.startswith(
        "in session 2 of 3 the sender could not offer any load of the flat part; flat over 4 loads"
    )
    assert rule.short == {100: 2, 130: 2, 200: 2, 400: 2}


def test_loads_that_are_the_same_are_refused_after_one_round() -> None:
    rule = made()
    for _ in range(7):
        rule.loaded((25.0, 50.0)[rule.point % 2])
        rule.add(20.0)
    rule.loaded((25.0, 50.0)[rule.point % 2])
    with pytest.raises(
        ValueError,
        match="of 7 points only 2 have different loads: fewer than 3 show no plateau",
    ):
        rule.add(20.0)


def test_without_time_left_nothing_is_decided() -> None:
    rule = made()
    for _ in range(30):
        if rule.paused:
            rule.resume()
        rule.loaded(LOADS[rule.point])
        rule.add(min(LOADS[rule.point], 90.0))
    rule.stop("budget", "budget of 1 s over")
    state = rule.state
    assert (state.decision, state.cause, state.reason) == (
        "inconclusive",
        "budget",
        "budget of 1 s over",
    )
    assert state.estimate == 90
    rule.stop("", "again")
    assert rule.state.reason == "budget of 1 s over"


def test_too_few_samples_are_not_fitted() -> None:
    rule = made()
    rule.loaded(25.0)
    rule.add(25.0)
    rule.stop("budget", "over")
    assert rule.curve is None
    assert rule.state.estimate is None


def test_bad_arguments_are_refused() -> None:
    with pytest.raises(ValueError, match="points is 2, less than 3"):
        PlateauRule(2)
    with pytest.raises(ValueError, match="the value is 0"):
        made(value=0.0)
    rule = made()
    with pytest.raises(ValueError, match="the load of the sample is not known"):
        rule.add(1.0)
    rule.loaded(1.0)
    with pytest.raises(ValueError, match="a sample is 0"):
        rule.add(0.0)
    with pytest.raises(ValueError, match="the load is -1"):
        rule.loaded(-1.0)
