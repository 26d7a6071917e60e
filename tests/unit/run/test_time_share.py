"""A time for the whole run: it goes where a verdict is nearest, and what is left ends with what it would need."""

from __future__ import annotations

import fcntl
import json
import signal
import threading
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pytest_vperf.run.time_share import TimeShare

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

#: The noise of a claim is what it takes; if it is negative, it is over after 20 pairs.
TEST = """
import random
import time
import pytest
from pytest_vperf import Quantity

NOISE = {noise!r}
taken = dict.fromkeys(range(len(NOISE)), 0)

@pytest.mark.parametrize("number", range(len(NOISE)))
def test_it(claim, number):
    source = random.Random(number)
    def sample():
        time.sleep(0.002)
        taken[number] += 1
        noise = NOISE[number] if NOISE[number] > 0 or taken[number] <= 40 else 0.02
        return Quantity(source.lognormvariate(0, abs(noise)), "ms", direction="lower")
    claim(f"start.alike").compares(sample, to=sample)
"""
#: Ends the run when a verdict waits to be told.
WHEN_ONE_WAITS = """
import os
import signal
import pytest
from pytest_vperf.run.outcomes import TEST_CLAIMS

def pytest_runtest_setup(item):
    claims = [each.stash.get(TEST_CLAIMS, None) for each in item.session.items]
    waiting = [each.ledger.paused for each in claims if each and each.ledger.paused]
    if any(each.sampling.rule.state.decided for each in waiting):
        {end}
"""
HARD, EASY, CALMING = 4.0, 0.02, -1.2


def play(
    project: pytest.Pytester, noise: Sequence[float], *options: str, test: str = TEST
) -> pytest.RunResult:
    project.makepyfile(test_it=test.format(noise=list(noise)))
    return project.runpytest(
        "--claims-json=out.json", "--claims-seed=1", "--claims-pairs=100000", *options
    )


def records(project: pytest.Pytester) -> dict[str, dict[str, Any]]:
    claims = json.loads((project.path / "out.json").read_text())["claims"]
    return {each["nodeid"].partition("::")[2]: each for each in claims}


def test_the_time_goes_where_a_verdict_is_nearest(project: pytest.Pytester) -> None:
    """Equal parts would be a second each, in which the third and the last are not decided."""
    play(project, [HARD, EASY, 0.25, HARD, EASY, 0.25], "--claims-time=9 s")
    found = records(project)
    assert [each["verdict"] for each in found.values()].count("holds") >= 3
    for number in (0, 3):
        each = found[f"test_it[{number}]"]
        assert each["verdict"] == "inconclusive"
        assert each["cause"] == "budget"
        assert each["reason"].endswith("the run has 9 s for all of its claims (--claims-time)")
    assert sum(each["duration_s"] for each in found.values()) <= 9 + 1


def test_the_run_says_what_it_has(project: pytest.Pytester) -> None:
    result = play(project, [HARD, EASY, HARD], "--claims-time=3 s")
    result.stdout.fnmatch_lines(
        [
            "claims: 3 s for all claims",
            "start.alike:  *; the run has 3 s for all of its claims (--claims-time)",
            "claims: 1 verdict of 3; next: --claims-time=6s (2 undecided)",
        ]
    )
    result = play(project, [EASY], "--claims-time=1 min", "--claims-budget=5 s")
    result.stdout.fnmatch_lines(["claims: 60 s for all claims, at most 5 s each"])


def test_a_verdict_that_waits_to_be_told_is_not_lost_when_the_run_ends(
    project: pytest.Pytester,
) -> None:
    project.makeconftest(WHEN_ONE_WAITS.format(end="pytest.exit('enough')"))
    result = play(project, [CALMING, HARD, HARD, HARD], "--claims-time=6 s")
    assert result.ret == pytest.ExitCode.INTERRUPTED
    first, *others = records(project).values()
    assert first["verdict"] == "holds"
    assert len(first["sessions"]) >= 2
    assert all(each["verdict"] == "inconclusive" for each in others)


def test_a_verdict_that_waits_to_be_told_is_not_lost_with_a_killed_run(
    project: pytest.Pytester,
) -> None:
    project.makeconftest(WHEN_ONE_WAITS.format(end="os.kill(os.getpid(), signal.SIGKILL)"))
    project.makepyfile(test_it=TEST.format(noise=[CALMING, HARD, HARD, HARD]))
    words = ("--claims-json=out.json", "--claims-seed=1", "--claims-pairs=100000")
    result = project.runpytest_subprocess(*words, "--claims-time=6 s")
    assert result.ret == -signal.SIGKILL
    record = json.loads((project.path / "out.json").read_text())
    lines = (project.path / record["unfinished"]).read_text().splitlines()
    claims = [json.loads(each)["claim"] for each in lines if each.startswith('{"claim"')]
    assert [(each["nodeid"], each["verdict"]) for each in claims] == [
        ("test_it.py::test_it[0]", "holds")
    ]


def test_a_refuted_claim_that_waits_to_be_told_fails_its_test_once(
    project: pytest.Pytester,
) -> None:
    half = "Quantity(sample().value / 2, 'ms', direction='lower')"
    test = TEST.replace("to=sample)", f"to=lambda: {half})")
    result = play(project, [CALMING, HARD, HARD], "--claims-time=6 s", test=test)
    first = records(project)["test_it[0]"]
    assert (first["verdict"], len(first["sessions"]) >= 2) == ("refuted", True)
    assert list(records(project)).count("test_it[0]") == 1
    assert result.ret == pytest.ExitCode.TESTS_FAILED
    assert result.parseoutcomes()["refuted"] >= 1


def test_what_waits_when_the_run_ends_says_so(project: pytest.Pytester) -> None:
    test = TEST.replace("    source =", "    if number == 2: pytest.exit('enough')\n    source =")
    play(project, [HARD, HARD, HARD], "--claims-time=6 s", test=test)
    assert [each["reason"] for each in records(project).values()] == [
        "the run ended before its next part of the time (--claims-time)"
    ] * 2


def test_what_is_put_off_is_sampled_on_and_warmed_up_again(project: pytest.Pytester) -> None:
    play(project, [HARD, EASY, EASY], "--claims-time=4 s")
    found = records(project)["test_it[0]"]
    assert len(found["sessions"]) >= 2
    for session in range(1, len(found["sessions"]) + 1):
        own = [each for each in found["observations"] if each["session"] == session]
        if session > 1:
            assert sum(each["warm_up"] for each in own) == min(2, len(own))
        arms = [each["arm"] for each in own if not each["warm_up"]]
        # It is put off between two pairs; only the end of the time may cut the very last one.
        rest = 1 if session == len(found["sessions"]) else 0
        assert abs(arms.count("a") - arms.count("b")) <= rest


def test_reports_are_in_the_users_order(project: pytest.Pytester) -> None:
    """What is decided at once comes first; those that were put off together, whichever was decided before. In the
    record each is kept as soon as it is decided.
    """
    result = play(project, [HARD, HARD, CALMING, EASY], "--claims-time=6 s", "-v")
    found = records(project)
    assert (next(iter(found)), len(found)) == ("test_it[3]", 4)
    result.stdout.fnmatch_lines(
        [
            f"test_it.py::test_it?{number}? {word} *"
            for number, word in ((3, "HELD"), (0, "INCON*"), (1, "INCON*"), (2, "HELD"))
        ]
    )
    assert found["test_it[2]"]["verdict"] == "holds"
    assert len(found["test_it[2]"]["sessions"]) >= 2


def test_each_test_is_reported_once(project: pytest.Pytester) -> None:
    result = play(project, [HARD, EASY, HARD], "--claims-time=3 s")
    outcomes = result.parseoutcomes()
    assert sum(outcomes.values()) == 3
    assert len(json.loads((project.path / "out.json").read_text())["claims"]) == 3


def test_a_gate_has_a_time_too(project: pytest.Pytester) -> None:
    test = """
import itertools, os, time
from pytest_vperf import Quantity

def test_gate(claim):
    noise = itertools.cycle([1, 1.003, 0.999, 1.002, 0.998])
    claim("mine.own").holds(lambda: Quantity(float(os.environ["LEVEL"]) * next(noise), "ms"))
"""
    sides = ("--claims-base=env.LEVEL=100", "--claims-head=env.LEVEL=120")
    result = play(
        project, [], "--claims-time=5 s", *sides, test=test.replace("{", "{{").replace("}", "}}")
    )
    assert result.ret == 1
    result.stdout.fnmatch_lines(["gate: 1 slower"])


def test_a_limit_has_an_equal_part_as_its_budget(project: pytest.Pytester) -> None:
    test = """
from samplers import around

def test_limit(claim): claim("start.quick").holds(around(100))
def test_other(claim): claim("start.alike").compares(around(100), to=around(98))
"""
    play(project, [], "--claims-time=8 s", test=test)
    found = records(project)
    assert {each["verdict"] for each in found.values()} == {"holds"}
    assert found["test_limit"]["budget_s"] == pytest.approx(4, abs=0.5)
    assert found["test_limit"]["plan"]["origins"]["budget"] == "its part of --claims-time"
    assert len(found["test_limit"]["sessions"]) == 3


def test_each_worker_has_the_time_for_its_own_tests(project: pytest.Pytester) -> None:
    play(project, [HARD, EASY, EASY, EASY], "--claims-time=3 s", "-n2", "-p", "xdist")
    found = records(project)
    assert len(found) == 4
    assert found["test_it[0]"]["verdict"] == "inconclusive"
    assert [each["verdict"] for each in found.values()].count("holds") >= 2


def test_a_part_begins_when_the_machine_is_free(
    project: pytest.Pytester, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = project.path / "lock"
    monkeypatch.setenv("VPERF_LOCK", str(path))
    with path.open("w") as other:
        fcntl.flock(other, fcntl.LOCK_EX)
        free = threading.Timer(2.5, fcntl.flock, [other, fcntl.LOCK_UN])
        free.start()
        play(project, [EASY, EASY, EASY], "--claims-time=6 s")
        free.join()
    for each in records(project).values():
        assert each["verdict"] == "holds"
        assert len(each["sessions"]) == 1


def test_a_budget_is_still_the_most_that_a_claim_has(project: pytest.Pytester) -> None:
    play(project, [HARD], "--claims-time=60 s", "--claims-budget=0.5 s")
    (found,) = records(project).values()
    assert found["budget_s"] == 0.5
    assert "(--claims-time)" not in found["reason"]


@pytest.mark.parametrize("text", ["0 s", "banana", "15", "5 MiB"])
def test_what_is_no_time_is_refused(project: pytest.Pytester, text: str) -> None:
    result = play(project, [EASY], f"--claims-time={text}")
    assert result.ret == pytest.ExitCode.USAGE_ERROR
    result.stderr.fnmatch_lines(["*--claims-time: *"])


# Who has the time next.


class Waiting:
    """A judgement that waits: what it still takes, as expected and at best; ``None``: nobody knows."""

    def __init__(self, rest: tuple[float, float] | None, *, decided: bool = False) -> None:
        self.sampling = self.rule = self.state = self
        self.rest, self.decided = rest, decided
        self.ended, self.waited = "", 0.0

    def out_of_share(self, told: str) -> None:
        self.ended = told


def choose(share: TimeShare, waiting: Mapping[str, Waiting]) -> str | None:
    return share.choose(waiting)  # type: ignore[arg-type]


def test_the_shortest_need_that_fits_is_first() -> None:
    share = TimeShare(100, 3, clock=lambda: 0.0)
    waiting = {"a": Waiting((50, 30)), "b": Waiting((20, 10)), "c": Waiting((5, 1), decided=True)}
    assert choose(share, waiting) == "b"
    assert choose(share, {"a": Waiting((500, 200)), "b": Waiting((900, 90))}) == "b"
    assert choose(share, {"a": Waiting((500, 200)), "b": Waiting(None)}) == "b"
    assert choose(share, {"a": Waiting((500, 200))}) is None
    assert choose(share, {}) is None


def test_time_is_kept_to_conclude_what_waits() -> None:
    share = TimeShare(100, 3, clock=lambda: 0.0)
    share.took("a", 20)
    assert share.left(waiting=2) == 60
    assert choose(share, {"a": Waiting((90, 90))}) is None


def test_what_is_left_is_ended_and_what_is_decided_is_not() -> None:
    share = TimeShare(100, 2, clock=lambda: 0.0)
    one, other, third = Waiting((500, 500)), Waiting(None, decided=True), Waiting(None)
    third.waited = 40.0
    share.end([one, other, third])  # type: ignore[list-item]
    assert third.ended == f"{one.ended}, and 40 s went by while others measured"
    assert one.ended == "the run has 100 s for all of its claims (--claims-time)"
    assert other.ended == ""


def test_the_first_round_stops_what_does_not_fit_into_its_part() -> None:
    at = 0.0
    share = TimeShare(100, 4, clock=lambda: at)
    part = share.visit("a")
    assert part.over(1, 26)  # the fewest do not fit
    assert not part.over(8, 1000)  # too few to know
    assert not part.over(15, 1000)
    assert not part.over(16, 25)
    assert part.over(16, 26)
    assert not part.over(16, None)
    at = 25.0
    assert part.over(1, 0)


def test_a_later_visit_goes_on_for_what_it_is_expected_to_take() -> None:
    at = 0.0
    share = TimeShare(100, 1, clock=lambda: at)
    assert not share.visit("a").holds_back
    share.took("a", 3)
    for rest, seconds in ((20, 20), (0.5, 3), (500, 97)):
        assert choose(share, {"a": Waiting((rest, 1))}) == "a"
        part = share.visit("a")
        assert part.holds_back
        at = seconds - 0.01
        assert not part.over(16, 1000)
        at = seconds
        assert part.over(16, 0)
        at = 0.0


@given(st.lists(st.floats(0, 50), min_size=1, max_size=30), st.floats(1, 600))
def test_equal_parts_add_up_to_the_time(takes: list[float], seconds: float) -> None:
    """Whatever each takes of its part, later tests have what earlier ones left."""
    at = 0.0
    share = TimeShare(seconds, len(takes), clock=lambda: at)
    for number, each in enumerate(takes):
        part = share.equal(str(number))
        assert part == pytest.approx(share.left() / (len(takes) - number))
        at += min(each, part)
    assert at <= seconds * (1 + 1e-9)
