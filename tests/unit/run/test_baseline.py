"""A run with a baseline: each claim's figure against those of stored runs, and never green without them."""

from __future__ import annotations

import json
import random
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import pytest
from repositories import git
from stores import save

from pytest_vperf.results.levels import Level
from pytest_vperf.results.store.files import FileStore

if TYPE_CHECKING:
    from pytest_vperf.results.store.model import StoredRun

TEST = """
from samplers import around

def test_quick(claim): claim("start.quick").holds(around(100))
"""


@pytest.fixture
def machine(project: pytest.Pytester) -> StoredRun:
    """A run of this machine, which is in no store any more."""
    play(project, "--claims-save")
    store = FileStore(project.path / ".vperf")
    (run,) = store.runs()
    for file in (project.path / ".vperf").iterdir():
        file.unlink()
    return run


def play(project: pytest.Pytester, *options: str, test: str = TEST) -> pytest.RunResult:
    project.makepyfile(test_it=test)
    return project.runpytest("--claims-seed=1", "--claims-sessions=1", *options)


def keep(
    project: pytest.Pytester, run: StoredRun, level: float, count: int = 20, **changes: Any
) -> None:
    """Keep runs with about this figure, a minute after each other."""
    source, store = random.Random(f"{level} {count}"), FileStore(project.path / ".vperf")
    for number in range(count):
        value = level * (1 + source.gauss(0, 0.003))
        own = {
            "mark": f"{source.getrandbits(48):012x}",
            "started": f"2026-11-26T{9 + number // 60:02d}:{number % 60:02d}:00+00:00",
            "name": "main",
            "levels": (Level("start.quick", "", value, "ms", "lower", 9),),
        }
        save(store, replace(run, **{**own, **changes}))


@pytest.fixture
def commit(project: pytest.Pytester) -> str:
    """The commit that the project is at, with nothing changed."""
    project.makepyfile(test_it=TEST)
    git(project.path, "init", "-q")
    git(project.path, "add", "-A")
    git(project.path, "commit", "-qm", "one")
    return git(project.path, "rev-parse", "HEAD")


@pytest.mark.parametrize(
    ("level", "status", "answer"),
    [
        (100, 0, "baseline main: 1 not slower (within 5 %)"),
        (115, 1, "baseline main: 1 slower"),
        (85, 0, "baseline main: 1 not slower (within 5 %)"),
    ],
)
def test_runs_of_one_build_are_held_against_those_of_another(
    project: pytest.Pytester,
    commit: str,
    machine: StoredRun,
    level: float,
    status: int,
    answer: str,
) -> None:
    """This run is the third of the build."""
    keep(project, machine, 10000 / level, 40, commit="ab" * 20)
    keep(project, machine, 100, 2, commit=commit, dirty=False, name="")
    result = play(project, "--baseline=main", "--claims-json=out.json")
    assert result.ret == status
    result.stdout.fnmatch_lines([answer])
    held, compared = json.loads((project.path / "out.json").read_text())["claims"]
    assert held["verdict"] == "holds"
    assert held["baseline"] is None
    assert compared["name"] == "start.quick"
    assert compared["estimate"] == pytest.approx(level / 100, rel=0.01)
    assert compared["n"] == 3
    assert compared["baseline"]["runs"] == 40
    assert compared["verdict"] == ("refuted" if level == 115 else "holds")


def test_a_slower_build_is_said(project: pytest.Pytester, machine: StoredRun, commit: str) -> None:
    keep(project, machine, 87, 40, commit="ab" * 20)
    keep(project, machine, 100, 2, commit=commit, dirty=False, name="")
    result = play(project, "--baseline=main")
    result.stdout.re_match_lines(
        [
            r"start.quick is slower than the runs of main: \+1[45]\S* % \[.*\]",
            r"refuted +start.quick +1\.1\S* \[.*\] +no worse than main by more than 5 % +3 .*",
            "start.quick: +3 runs against 40: the fresh ones rank beyond the tolerance",
        ],
        consecutive=False,
    )


def test_so_few_runs_that_nothing_could_be_seen_are_not_green(
    project: pytest.Pytester, machine: StoredRun
) -> None:
    keep(project, machine, 100, 20)
    result = play(project, "--baseline=main")
    assert result.ret == pytest.ExitCode.NO_TESTS_COLLECTED
    result.stdout.fnmatch_lines(
        [
            "baseline main: 1 undecided: 2 more runs of each would tell",
            "claims: result: nothing measured, exit status 5",
        ]
    )


def test_a_figure_that_the_baseline_lacks_is_an_error_and_no_pass(
    project: pytest.Pytester, machine: StoredRun
) -> None:
    keep(project, machine, 100, 40)
    test = (
        TEST
        + '\ndef test_other(claim): claim("start.alike").compares(around(100), to=around(98))\n'
    )
    result = play(project, "--baseline=main", "--claims-json=out.json", test=test)
    assert result.ret != 0
    result.stdout.fnmatch_lines(
        [
            "baseline main: 1 undecided*, 1 without a baseline",
            "*no run of main has a figure of this claim: keep one with --claims-save",
        ]
    )


@pytest.mark.parametrize(
    ("runs", "word", "message"),
    [
        ({}, "man", "*--baseline: */.vperf has no run 'man', and there is no such file; did you mean 'main'?"),
        ({"fingerprint": {"cpu_model": "Other"}}, "main",
         "*--baseline: the runs of main are of another machine than this: cpu_model: Other / *"),
        ({"commit": "HEAD", "dirty": False}, "main",
         "*--baseline: all runs of main are of this build itself, ????????????"),
    ],
)  # fmt: skip
def test_a_baseline_that_is_missing_ends_the_run_before_anything_is_measured(
    project: pytest.Pytester,
    machine: StoredRun,
    commit: str,
    runs: dict[str, Any],
    word: str,
    message: str,
) -> None:
    if runs.get("commit") == "HEAD":
        runs = {**runs, "commit": commit}
    keep(project, machine, 100, 20, **runs)
    result = play(project, f"--baseline={word}")
    assert result.ret == pytest.ExitCode.USAGE_ERROR
    result.stderr.fnmatch_lines([message])
    assert "start.quick" not in result.stdout.str()


def test_an_empty_store_is_an_error(project: pytest.Pytester) -> None:
    result = play(project, "--baseline=main")
    assert result.ret == pytest.ExitCode.USAGE_ERROR
    result.stderr.fnmatch_lines(["*--baseline: */.vperf has no run 'main'*"])


def test_sides_and_a_baseline_do_not_go_together(project: pytest.Pytester) -> None:
    result = play(project, "--baseline=main", "--claims-head=env.A=2")
    assert result.ret == pytest.ExitCode.USAGE_ERROR
    result.stderr.fnmatch_lines(
        [
            "*--baseline: head is compared with base, which is sharper: leave out --baseline, or --claims-head"
        ]
    )


def test_a_run_without_claims_has_no_answer_if_one_was_asked_for(project: pytest.Pytester) -> None:
    result = play(project, "--baseline=main", test="def test_it(): pass\n")
    assert result.ret == pytest.ExitCode.NO_TESTS_COLLECTED
    result.stdout.fnmatch_lines(
        [
            "baseline main: nothing was compared with it",
            "claims: result: nothing measured, exit status 5",
        ]
    )
    with_ini = play(project, "--override-ini=claims_baseline=main", test="def test_it(): pass\n")
    assert with_ini.ret == 0


def test_a_kept_run_has_the_figure_and_not_what_it_was_held_against(
    project: pytest.Pytester, machine: StoredRun
) -> None:
    keep(project, machine, 100, 20)
    play(project, "--baseline=main", "--claims-save=pr")
    (run,) = FileStore(project.path / ".vperf").runs(name="pr")
    assert [(each.claim, each.unit) for each in run.levels] == [("start.quick", "ms")]


def test_the_workers_of_xdist_know_the_baseline(
    project: pytest.Pytester, machine: StoredRun, commit: str
) -> None:
    keep(project, machine, 87, 40, commit="ab" * 20)
    keep(project, machine, 100, 2, commit=commit, dirty=False, name="")
    result = play(project, "--baseline=main", "-n1", "-p", "xdist")
    assert result.ret == 1
    result.stdout.fnmatch_lines(["baseline main: 1 slower"])


def test_what_is_judged_in_several_sessions_is_compared_once(
    project: pytest.Pytester, machine: StoredRun
) -> None:
    keep(project, machine, 100, 20)
    project.makepyfile(test_it=TEST)
    project.runpytest("--claims-seed=1", "--baseline=main", "--claims-json=out.json")
    claims = json.loads((project.path / "out.json").read_text())["claims"]
    assert [each["baseline"] is None for each in claims] == [True, False]
