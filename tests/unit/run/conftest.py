"""A project with claims, judged by its own profile; samplers are plain functions that note their calls in a list."""

from __future__ import annotations

import functools
import importlib.util
import sys
from datetime import datetime
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import fleets
import pytest
from passing_time import Clock

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

# pytester drops modules that a run in this process imports, so the next run would import them again: those imported
# here stay.
for name in (
    *(
        "fleet.cargo",
        "fleet.chosen",
        "fleet.controller",
        "fleet.engines",
        "fleet.project",
        "fleet.inside",
        "fleet.lines",
        "fleet.links",
        "fleet.order",
        "fleet.planner",
    ),
    *("claims.claim", "thresholds.hardware", "claims.plan", "thresholds.profile", "machine.ending"),
    *("machine.fingerprint", "run.visits"),
    *("run.outcomes", "run.phases", "reporting.terminal", "reporting.summary"),
    *(
        "reporting.terminal",
        "reporting.summary",
        "reporting.tables",
        "results.run",
    ),
    *("results.run", "run.session", "run.settings", "targets.base", "targets.scope"),
):
    importlib.import_module(f"pytest_vperf.{name}")
for name in ("pint", "psutil", "scipy.special"):  # these cannot be imported twice
    importlib.import_module(name)

ANY = """
hardware:
  name: any
  summary: every machine
  match: {}
claims:
  start.alike:
    ratio: {at_most: 1.1}
  start.half:
    near: {value: 0.5, tolerance: 5 %}
  start.no_worse:
    no_worse: lower_is_better
"""
HERE = """
hardware:
  name: here
  summary: whatever runs this test
  match: {logical_cpus: ">= 1"}
claims:
  start.quick:
    at_most: 400 ms
    summary: it starts quickly
    source: {document: 000.txt, section: "1.1", published: {min: 352 ms, max: 391 ms, mean: 376 ms}, rule: in words}
  copy.rate:
    at_least: 10 MB/s
  copy.level:
    near: {value: 70 MB/s, tolerance: 10 %}
  copy.plateau:
    saturates: {near: 90 packet/s, tolerance: 5 %}
  copy.graph:
    unknown: the document has a graph without numbers
    unit: ms
"""
LAB = """
hardware:
  name: lab
  summary: a machine that is not this one
  match: {cpu_model: "No Such Processor", logical_cpus: 8, memory: ">= 15 GiB"}
claims:
  start.elsewhere:
    at_most: 100 ms
"""
SAMPLERS = '''
import itertools

from pytest_vperf.claims import sampling
from pytest_vperf.quantity import Quantity
from pytest_vperf.targets.base import Unavailable


def pause(seconds):
    """Time passes by the clock of the sampling, which may be one of the test's."""
    sampling.time.sleep(seconds)


def around(centre, unit="ms", sleep=0.0):
    """A sampler whose samples scatter a little around a centre."""
    noise = itertools.cycle([0, 3, -1, 2, -2, 1])

    def sample():
        pause(sleep)
        value = centre * (1 + next(noise) / 1000)
        return Quantity(value, unit, (("firmware", value / 4), ("kernel", value * 3 / 4)))

    return sample


def given(*values, unit="ms", breakdown=(), sleep=0.0, **kind):
    """A sampler that returns these values in turn, over and over."""
    again = itertools.cycle(values)

    def sample():
        pause(sleep)
        value = next(again)
        parts = breakdown(value) if callable(breakdown) else breakdown
        return Quantity(value, unit, parts, **kind)

    return sample


def broken(after, error):
    """A sampler that raises after some samples."""
    good, calls = around(350), itertools.count()

    def sample():
        if next(calls) >= after:
            raise error
        return good()

    return sample


def missing():
    raise Unavailable("no such machine here", remedy="buy one", target="pod kvm qboot")
'''


@pytest.fixture(autouse=True)
def apart(tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The tests neither wait for measurements on this machine nor touch its runs."""
    folder = tmp_path_factory.mktemp("apart")
    monkeypatch.setenv("VPERF_LOCK", str(folder / "lock"))
    monkeypatch.setenv("VPERF_RUNS_DIR", str(folder / "runs"))
    monkeypatch.delenv("VPERF_REQUIRE", raising=False)
    monkeypatch.setenv("COLUMNS", "160")
    return folder


@pytest.fixture(autouse=True)
def without_xdist(monkeypatch: pytest.MonkeyPatch) -> None:
    """A run with workers skips its test where there is no pytest-xdist, as in some environments of tox."""
    if importlib.util.find_spec("xdist") is not None:
        return
    for name in ("runpytest", "runpytest_inprocess", "runpytest_subprocess"):
        monkeypatch.setattr(pytest.Pytester, name, _with_workers(getattr(pytest.Pytester, name)))


def _with_workers(run: Callable[..., Any]) -> Callable[..., Any]:
    @functools.wraps(run)
    def checked(self: pytest.Pytester, *words: Any, **more: Any) -> Any:
        if any(str(word).startswith("-n") for word in words):
            pytest.importorskip("xdist")
        return run(self, *words, **more)

    return checked


@pytest.fixture
def project(pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch) -> pytest.Pytester:
    """A folder with threshold files and samplers."""
    # Its summary imports hypothesis in every run, which takes longer than the run itself.
    monkeypatch.setenv("PYTEST_ADDOPTS", "-p no:hypothesispytest")
    pytester.makeini("[pytest]\n")
    folder = pytester.mkdir("thresholds")
    (folder / "any.yaml").write_text(ANY)
    (folder / "here.yaml").write_text(HERE)
    (folder / "lab.yaml").write_text(LAB)
    pytester.makepyfile(samplers=SAMPLERS)
    return pytester


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    """A clock that advances only in samplers' pauses, and dates the records. For runs in this process."""
    made = Clock()
    for name in ("claims.sampling", "machine.noise"):
        monkeypatch.setattr(f"pytest_vperf.{name}.time", made)
    date = SimpleNamespace(now=lambda zone: datetime.fromtimestamp(made.now, zone))
    monkeypatch.setattr("pytest_vperf.results.run.datetime", date)
    return made


@pytest.fixture
def fleet(project: pytest.Pytester) -> pytest.Pytester:
    """A project with three machines of two types."""
    project.makeconftest(fleets.ENGINE)
    (project.path / "fleet.yaml").write_text(fleets.FILE.format(python=sys.executable))
    project.makepyfile(test_it=fleets.TESTS)
    return project
