"""Rounds of pytest-benchmark as samples of a claim: those that its fixture took, and those that are interleaved."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from collections.abc import Sequence

#: A function that takes so many seconds in turn, by a clock of its own, which is the benchmarks' timer.
HEAD = """
import itertools
import pytest
from pytest_vperf import rounds
from samplers import around

now = [0.0]
calls = []
pytestmark = pytest.mark.benchmark(timer=lambda: now[0])
JITTER = (0, 0.003, -0.001, 0.002, -0.002, 0.001)

def taking(*levels, jitter=JITTER, name="f"):
    each = itertools.product(levels, jitter)
    again = itertools.cycle([level * (1 + noise) for level, noise in each])

    def function(*args):
        calls.append((name, *args))
        now[0] += next(again)

    return function
"""


@pytest.fixture(autouse=True)
def alone(monkeypatch: pytest.MonkeyPatch) -> None:
    """pytest-benchmark takes no rounds in a worker of pytest-xdist, which this process may be."""
    monkeypatch.delenv("PYTEST_XDIST_WORKER", raising=False)


def play(project: pytest.Pytester, test: str, *options: str) -> pytest.RunResult:
    project.makepyfile(HEAD + test)
    return project.runpytest("--claims-json=out.json", "--claims-seed=1", *options)


def records(project: pytest.Pytester) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = json.loads((project.path / "out.json").read_text())["claims"]
    return found


def rows(result: pytest.RunResult) -> Sequence[str]:
    """The rows of pytest-benchmark's table about the test."""
    return [each for each in result.outlines if each.startswith("test_it ")]


@pytest.mark.parametrize(("level", "verdict"), [(0.35, "holds"), (0.45, "refuted")])
def test_a_limit_is_judged_from_the_rounds_of_a_benchmark(
    project: pytest.Pytester, level: float, verdict: str
) -> None:
    test = f"""
def test_it(claim, benchmark):
    benchmark.pedantic(taking({level}), rounds=30)
    claim("start.quick").holds(benchmark)
def test_last(): pass
"""
    result = play(project, test)
    (record,) = records(project)
    assert record["verdict"] == verdict
    assert len(record["sessions"]) == 3
    assert {each["unit"] for each in record["observations"]} == {"ms"}
    assert not any(each["warm_up"] for each in record["observations"])
    expected = {round(1000 * level * (1 + each / 1000), 6) for each in (0, 3, -1, 2, -2, 1)}
    assert {round(each, 6) for each in record["samples"]} <= expected
    assert len(rows(result)) == 1  # of three visits


def test_a_test_is_listed_once(project: pytest.Pytester) -> None:
    test = """
def test_first(claim, benchmark):
    benchmark.pedantic(int, rounds=3)
    claim("start.quick").holds(around(350))
def test_last(benchmark): benchmark.pedantic(int, rounds=3)
"""
    play(project, test, "--benchmark-json=bench.json")
    found = json.loads((project.path / "bench.json").read_text())["benchmarks"]
    assert [each["name"] for each in found] == ["test_last", "test_first"]
    assert len(records(project)[0]["sessions"]) == 3


def test_rounds_are_drawn_from_the_whole_benchmark(project: pytest.Pytester) -> None:
    test = """
def test_it(claim, benchmark):
    function = taking(0.3, 0.5, 0.5, 0.5, 0.5, jitter=[n / 1000 for n in range(20)])
    benchmark.pedantic(function, rounds=100)
    claim("start.quick").holds(benchmark)
"""
    play(project, test)
    # The first 20 rounds alone would hold.
    assert records(project)[0]["verdict"] == "refuted"


def test_two_claims_may_be_judged_from_one_benchmark(project: pytest.Pytester) -> None:
    test = """
def test_it(claim, benchmark):
    benchmark.pedantic(taking(0.35), rounds=30)
    claim("start.quick").holds(benchmark)
    claim("start.quick").holds(benchmark)
"""
    play(project, test)
    assert [each["verdict"] for each in records(project)] == ["holds", "holds"]


def test_too_few_rounds(project: pytest.Pytester) -> None:
    test = """
def test_it(claim, benchmark):
    benchmark.pedantic(taking(0.39), rounds=3)
    claim("start.quick").holds(benchmark)
"""
    result = play(project, test)
    (record,) = records(project)
    assert (record["verdict"], record["cause"], record["n"]) == (
        "inconclusive",
        "too few samples",
        3,
    )
    assert record["reason"] == (
        "session 1 of 3: the benchmark took 3 rounds, too few: raise its min_rounds or max_time, or judge "
        "rounds(benchmark, function), which takes as many as it needs"
    )
    result.stdout.fnmatch_lines(["claims: 0 verdicts of 1; next: vperf claims *"])


def test_a_benchmark_that_was_not_used_yet(project: pytest.Pytester) -> None:
    test = """
def test_it(claim, benchmark):
    claim("start.quick").holds(benchmark)
"""
    play(project, test).stdout.fnmatch_lines(
        [
            "E *ClaimError: claim 'start.quick': the benchmark has no rounds yet: call benchmark(function) before",
        ]
    )


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (
            "claim('start.alike').compares(benchmark, to=around(350))",
            "claim 'start.alike' needs interleaved rounds, and a benchmark takes all of its own at once: use "
            "claim('start.alike').compares(rounds(benchmark, function), to=rounds(benchmark, other)), with "
            "pytest_vperf.rounds",
        ),
        (
            "claim('start.half').near(around(350), to=benchmark)",
            "claim 'start.half' needs interleaved rounds, and a benchmark takes all of its own at once: use "
            "claim('start.half').near(rounds(benchmark, function), to=rounds(benchmark, other)), with "
            "pytest_vperf.rounds",
        ),
        (
            "claim('copy.plateau').saturates(benchmark, over=[1, 2, 3])",
            "claim 'copy.plateau' needs a sample at each load, and the benchmark took its rounds before: sample with "
            "a function of the load",
        ),
    ],
)
def test_rounds_that_were_taken_before_are_not_interleaved(
    project: pytest.Pytester, call: str, message: str
) -> None:
    test = f"""
def test_it(claim, benchmark):
    benchmark.pedantic(taking(0.35), rounds=30)
    {call}
"""
    result = play(project, test)
    assert f"E       pytest_vperf.claims.claim.ClaimError: {message}" in result.outlines


@pytest.mark.parametrize(("other", "verdict"), [(0.35, "holds"), (0.2, "refuted")])
def test_two_functions_are_compared_by_interleaved_rounds(
    project: pytest.Pytester, other: float, verdict: str
) -> None:
    test = f"""
def test_it(claim, benchmark):
    try:
        claim("start.alike").compares(
            rounds(benchmark, taking(0.35, name="new")), to=rounds(benchmark, taking({other}, name="old"))
        )
    finally:
        print("ORDER", *(name for name, in calls))
"""
    result = play(project, test, "-s", "-W", "error")
    (record,) = records(project)
    assert record["verdict"] == verdict
    (line,) = (each for each in result.outlines if "ORDER" in each)
    order = line.partition("ORDER ")[2].split()
    pairs = [set(order[at : at + 2]) for at in range(0, len(order), 2)]
    assert all(pair == {"new", "old"} for pair in pairs)
    assert {tuple(order[at : at + 2]) for at in range(0, len(order), 2)} == {
        ("new", "old"),
        ("old", "new"),
    }
    assert rows(result) == []
    assert not any("not used at all" in each for each in result.outlines + result.errlines)


def test_a_limit_is_judged_by_as_many_rounds_as_it_needs(project: pytest.Pytester) -> None:
    test = """
def test_it(claim, benchmark):
    claim("start.quick").holds(rounds(benchmark, taking(0.35)))
"""
    play(project, test)
    assert records(project)[0]["verdict"] == "holds"


def test_a_round_has_what_pedantic_has(project: pytest.Pytester) -> None:
    test = """
def test_it(benchmark):
    def setup():
        now[0] += 5
        calls.append("setup")
        return ("made",), {}
    def teardown(*args):
        now[0] += 7
        calls.append(("teardown", *args))
    value = rounds(benchmark, taking(0.5, jitter=[0]), setup=setup, teardown=teardown)()
    assert (str(value), value.direction) == ("0.5 s", "lower")
    assert calls == ["setup", ("f", "made"), ("teardown", "made")]

    calls.clear()
    value = rounds(benchmark, taking(0.5, jitter=[0]), ("text",), iterations=4)()
    assert str(value) == "0.5 s"
    assert calls[:4] == [("f", "text")] * 4
"""
    play(project, test).assert_outcomes(passed=1)


def test_a_fixture_whose_rounds_were_judged_is_used(project: pytest.Pytester) -> None:
    test = """
def test_it(benchmark):
    rounds(benchmark, taking(0.5))()
    benchmark(taking(0.5))
"""
    play(project, test).stdout.fnmatch_lines(
        ["*FixtureAlreadyUsed: Fixture can only be used once. *used in rounds(...) mode."]
    )


def test_a_fixture_of_another_plug_in_takes_no_rounds(project: pytest.Pytester) -> None:
    test = """
@pytest.fixture
def theirs(): return print
def test_it(theirs): rounds(theirs, taking(0.5))
"""
    play(project, test).stdout.fnmatch_lines(
        [
            "E *TypeError: rounds: <built-in function print> is not the fixture benchmark of pytest-benchmark"
        ]
    )


def test_an_error_of_the_function_is_its_own(project: pytest.Pytester) -> None:
    test = """
def test_it(claim, benchmark):
    claim("start.quick").holds(rounds(benchmark, lambda: 1 / 0))
"""
    result = play(project, test)
    result.assert_outcomes(failed=1)
    result.stdout.fnmatch_lines(["E *ZeroDivisionError: division by zero"])


@pytest.mark.parametrize(
    "call",
    [
        "benchmark.pedantic(taking(0.35), rounds=30); sample = benchmark",
        "sample = rounds(benchmark, print)",
    ],
)
@pytest.mark.parametrize("options", [["--benchmark-disable"], ["-n", "1"]], ids=["option", "xdist"])
def test_where_benchmarks_are_switched_off_nothing_is_measured(
    project: pytest.Pytester, call: str, options: list[str]
) -> None:
    test = f"""
def test_it(claim, benchmark):
    {call}
    claim("start.quick").holds(sample)
"""
    play(project, test, *options)
    (record,) = records(project)
    assert record["verdict"] == "not measured"
    assert record["reason"] == (
        "pytest-benchmark takes no rounds in this run (to mend it: leave out --benchmark-disable, and "
        "pytest-xdist's -n)"
    )


def test_a_function_compared_with_itself(project: pytest.Pytester) -> None:
    test = """
def test_it(claim, benchmark):
    function, value = taking(0.35), [1]
    claim("start.alike").compares(
        rounds(benchmark, function, (value,)), to=rounds(benchmark, function, (value,))
    )
    claim("start.alike").compares(
        rounds(benchmark, function, ([1],)), to=rounds(benchmark, function, (value,))
    )
"""
    play(project, test)
    same, different = (record["warnings"] for record in records(project))
    assert same == ["both arms have the same sampler: it is compared with itself"]
    assert different == []


@pytest.mark.parametrize(
    ("sample", "warned"), [("around(350)", True), ("rounds(benchmark, taking(0.35))", False)]
)
def test_a_benchmark_pauses_what_traces_it(
    project: pytest.Pytester, sample: str, warned: bool
) -> None:
    test = f"""
import sys
def follow(*_args): pass
def test_it(claim, benchmark):
    before = sys.getprofile()
    sys.setprofile(follow)
    try:
        claim("start.alike").compares({sample}, to={sample.replace("35", "34")})
    finally:
        sys.setprofile(before)
"""
    play(project, test)
    assert any("was traced" in each for each in records(project)[0]["warnings"]) == warned
