"""A claim about a percentile gets the samples that it needs, or says at once how many those are."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from passing_time import Clock

THRESHOLDS = """
hardware: {name: any, match: {}}
claims:
  start.tail: {at_most: 400 ms, statistic: p99}
  start.worst: {at_most: 400 ms, statistic: p95}
  copy.floor: {at_least: 10 MB/s, statistic: p1}
  copy.crest: {at_least: 10 MB/s, statistic: p99}
  start.asked:
    at_most: 400 ms
    statistic: p99
    judge: {pairs: 600}
  start.median: {at_most: 400 ms}
"""
TEST = """
    import pytest
    from samplers import around, given

    {marker}
    def test_it(claim):
        claim("{name}").holds({sampler})
"""


def judged(
    project: pytest.Pytester,
    *options: str,
    name: str = "start.tail",
    sampler: str = "around(100)",
    marker: str = "",
) -> dict[str, Any]:
    """The record of a claim."""
    (project.path / "thresholds" / "any.yaml").write_text(THRESHOLDS)
    project.makepyfile(test_one=TEST.format(name=name, sampler=sampler, marker=marker))
    project.runpytest("--claims-json=out.json", "test_one.py", *options)
    (record,) = json.loads((project.path / "out.json").read_text())["claims"]
    found: dict[str, Any] = record
    return found


@pytest.mark.parametrize(
    ("name", "sampler", "verdict", "n"),
    [
        ("start.tail", "around(100)", "holds", 807),
        ("start.tail", "around(390)", "holds", 1668),
        ("start.tail", "around(900)", "refuted", 3),
        ("start.worst", "around(390)", "holds", 327),
        ("copy.floor", "around(90, 'MB/s')", "holds", 807),
        ("copy.floor", "around(1, 'MB/s')", "refuted", 3),
        ("copy.crest", "around(90, 'MB/s')", "holds", 3),
        ("copy.crest", "around(1, 'MB/s')", "refuted", 807),
    ],
)
def test_a_percentile_gets_the_samples_it_needs(
    project: pytest.Pytester, name: str, sampler: str, verdict: str, n: int
) -> None:
    found = judged(project, name=name, sampler=sampler)
    assert (found["verdict"], found["n"], found["reason"][:4]) == (verdict, n, "in e")
    assert found["plan"]["origins"]["pairs"] == "default"
    assert found["plan"]["pairs"] >= found["n"]


def test_a_percentile_holds_with_some_samples_beyond_its_limit(project: pytest.Pytester) -> None:
    """One in 250 is beyond the limit, where one in 100 may be."""
    found = judged(project, sampler="given(*(300 + i / 9 for i in range(249)), 900)")
    assert (found["verdict"], found["cause"]) == ("holds", "")
    assert 1668 < found["n"] < found["plan"]["pairs"]


@pytest.mark.parametrize(
    ("name", "option", "ini", "marker", "allowed", "origin"),
    [
        ("start.tail", "--claims-pairs=512", "", "", 512, "--claims-pairs"),
        ("start.tail", "", "claims_pairs = 700", "", 700, "ini"),
        ("start.tail", "", "", "@pytest.mark.vperf(pairs=800)", 800, "marker"),
        ("start.asked", "", "", "", 600, "thresholds/any.yaml:11"),
    ],
)
def test_too_few_samples_are_said_before_the_first_one(
    project: pytest.Pytester,
    name: str,
    option: str,
    ini: str,
    marker: str,
    allowed: int,
    origin: str,
) -> None:
    project.makeini(f"[pytest]\n{ini}\n")
    found = judged(
        project, *filter(None, [option]), name=name, marker=marker, sampler="lambda: 1 / 0"
    )
    assert (found["verdict"], found["cause"], found["n"]) == ("inconclusive", "too few samples", 0)
    assert found["reason"] == (
        f"p99 needs at least 807 samples, and {allowed} are allowed ({origin}): allow more"
    )
    assert (found["observations"], found["sessions"]) == ([], [])
    assert found["plan"]["pairs"] == allowed


def test_too_few_samples_for_a_median_are_said_too(project: pytest.Pytester) -> None:
    found = judged(project, "--claims-pairs=11", name="start.median")
    assert (found["verdict"], found["cause"]) == ("inconclusive", "too few samples")
    assert found["reason"] == (
        "the median needs at least 12 samples, and 11 are allowed (--claims-pairs): allow more"
    )
    assert judged(project, "--claims-pairs=12", name="start.median")["verdict"] == "holds"


def test_as_many_as_it_needs_are_enough(project: pytest.Pytester) -> None:
    assert judged(project, "--claims-pairs=807")["verdict"] == "holds"


@pytest.mark.parametrize(
    ("options", "marker", "said"),
    [
        ([], "", "60 s are allowed (default): allow more (--claims-budget)"),
        (["--claims-budget=30 s"], "", "30 s are allowed (--claims-budget): allow more"),
        ([], "@pytest.mark.vperf(budget='50 s')", "50 s are allowed (marker): allow more"),
    ],
)
def test_a_budget_that_cannot_do_is_said_after_the_first_samples(
    project: pytest.Pytester, clock: Clock, options: list[str], marker: str, said: str
) -> None:
    found = judged(project, *options, marker=marker, sampler="around(100, sleep=0.5)")
    assert (found["verdict"], found["cause"], found["n"]) == ("inconclusive", "budget", 16)
    assert found["reason"] == f"p99 needs at least 807 samples, 7 min, and {said}"


def test_what_is_refuted_by_few_samples_is_not_given_up(
    project: pytest.Pytester, clock: Clock
) -> None:
    """A quarter of the samples is beyond the limit: the 80 s that a p95 would need to hold are no matter."""
    sampler = "given(350, 351, 352, 410, 353, 349, 348, 411, sleep=0.5)"
    found = judged(project, name="start.worst", sampler=sampler)
    assert found["verdict"] == "refuted"
    assert 3 * 16 < found["n"] < 159


def test_too_close_is_said_only_of_what_is_close(project: pytest.Pytester) -> None:
    """With one of 201 samples beyond the limit, the p99 is well below it."""
    few = judged(
        project,
        "--claims-pairs=1200",
        sampler="given(*(300 + i / 9 for i in range(200)), 900)",
    )
    assert (few["verdict"], few["cause"]) == ("inconclusive", "too few samples")
    assert few["reason"] == (
        "p99 needs at least 1668 samples this near the limit, and 1200 are allowed: "
        "session 1 of 3 was undecided after 400 samples"
    )
    close = judged(
        project,
        "--claims-pairs=3000",
        sampler="given(*(300 + i / 9 for i in range(98)), 399, 401)",
    )
    assert (close["verdict"], close["cause"]) == ("inconclusive", "budget")
    assert close["reason"].startswith("too close to the limit: session 1 of 3 was undecided after ")
