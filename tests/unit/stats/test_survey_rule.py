"""The rule of a calibration: how many samples, in which sessions, whatever they are."""

from __future__ import annotations

import pytest

from pytest_vperf.stats.describe import SurveyRule


def taken(rule: SurveyRule) -> int:
    """Samples of the session that begins now."""
    rule.resume()
    number = 0
    while not (rule.paused or rule.state.decided):
        rule.add(float(number))
        number += 1
    return number


def test_eight_samples_in_each_of_three_sessions_after_the_warm_up_of_a_limit() -> None:
    rule = SurveyRule()
    assert rule.next() == "a"
    assert [taken(rule) for _ in range(3)] == [5 + 8, 2 + 8, 2 + 8]
    assert rule.state.decided
    assert not rule.paused
    assert (rule.state.samples, rule.state.decision) == (24, "inconclusive")


def test_a_survey_may_have_one_session() -> None:
    rule = SurveyRule(samples=4, sessions=1, warm_up=0)
    assert not rule.warming_up
    assert taken(rule) == 4
    assert rule.state.decided
    rule.add(9)
    assert rule.state.samples == 4


def test_time_that_is_over_ends_a_session_and_not_the_others() -> None:
    rule = SurveyRule(warm_up=0)
    rule.add(1)
    rule.stop("budget", "over")
    assert rule.paused
    rule.add(2)
    rule.stop("budget", "over")
    rule.resume()
    rule.add(3)
    rule.stop("budget", "over")
    assert (rule.state.decided, rule.state.samples, rule.state.cause) == (True, 3, "budget")


def test_an_interrupt_ends_all_sessions() -> None:
    rule = SurveyRule(warm_up=0)
    rule.add(1)
    rule.stop("", "the run ended")
    assert rule.state.decided
    assert not rule.paused


def test_equal_samples_are_reported() -> None:
    rule = SurveyRule(samples=3, sessions=1, warm_up=0)
    for _ in range(3):
        rule.add(7)
    assert "all 3 samples are identical" in rule.state.reason
    assert rule.state.estimate == 7


def test_bad_numbers_are_refused() -> None:
    with pytest.raises(ValueError, match="finite"):
        SurveyRule().add(float("nan"))
