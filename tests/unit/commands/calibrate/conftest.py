"""A project of claims for ``vperf calibrate``, with samplers that cost nothing."""

from __future__ import annotations

import subprocess
from typing import TYPE_CHECKING

import pytest

from pytest_vperf.cli import main
from pytest_vperf.commands.calibrate import runs

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    Vperf = Callable[..., subprocess.CompletedProcess[str]]

ANY = """
hardware: {name: any, match: {}}
claims:
  start.*: {unknown: no document publishes it, unit: ms}
  start.ratio: {ratio: {at_most: 1.1}}
  start.promised: {at_most: 40 ms}
"""
ELSEWHERE = """
hardware: {name: elsewhere, match: {cpu_model: "no such processor"}}
claims:
  copy.seconds: {at_most: 3 s}
  copy.tail: {at_most: 3 s, statistic: p95}
"""
TESTS = '''
import pathlib
import time

import pytest

from pytest_vperf.quantity import Quantity
from pytest_vperf.targets.base import Unavailable

LEVELS = [1.0, 1.02, 0.99, 1.01, 0.98]


@pytest.fixture(scope="session")
def run():
    """Which run this is, from 0 on."""
    path = pathlib.Path("runs")
    path.touch()
    number = len(path.read_text())
    path.write_text("x" * (number + 1))
    return number


def around(run, centre, unit="ms", direction=""):
    wobble = iter(range(10**6))
    level = centre * LEVELS[run % len(LEVELS)]
    return lambda: Quantity(level * (1 + 0.001 * (next(wobble) % 5 - 2)), unit, direction=direction)


def test_shell(claim, run):
    claim("start.shell").holds(around(run, 10, direction="lower"))


def test_rate(claim, run):
    claim("copy.rate").holds(around(run, 200, "MB/s", "higher"))


def test_seconds(claim, run):
    claim("copy.seconds").holds(around(run, 5000))


def test_tail(claim, run):
    claim("copy.tail").holds(around(run, 5))


def test_ratio(claim, run):
    claim("start.ratio").compares(around(run, 10), to=around(run, 10))


def test_promised(claim, run):
    claim("start.promised").holds(around(run, 50))


def test_direction(claim, run):
    claim("start.aimless").holds(around(run, 10))


def test_wrong_direction(claim, run):
    claim("copy.seconds").holds(around(run, 5, "s", "higher"))


def test_gone(claim, run):
    def gone():
        raise Unavailable("no such machine here", remedy="buy one", target="pod")

    claim("start.gone").holds(gone)


def test_sometimes(claim, run):
    if run != 1:
        claim("start.sometimes").holds(around(run, 10, direction="lower"))


def test_slow(claim):
    def slow():
        pathlib.Path("sampled").touch()
        time.sleep(0.02)
        return Quantity(50, "ms", direction="lower")

    claim("start.slow").holds(slow)
'''


@pytest.fixture
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A project of claims with its own state, on a quiet machine."""
    for variable, name in (("LOCK", "lock"), ("RUNS_DIR", "runs"), ("CACHE_DIR", "cache")):
        monkeypatch.setenv(f"VPERF_{variable}", str(tmp_path / name))
    monkeypatch.delenv("VPERF_REQUIRE", raising=False)
    monkeypatch.setenv("PYTEST_ADDOPTS", "-p no:hypothesispytest -p no:cacheprovider")
    project = tmp_path / "project"
    (project / "thresholds").mkdir(parents=True)
    (project / "thresholds" / "any.yaml").write_text(ANY)
    (project / "thresholds" / "elsewhere.yaml").write_text(ELSEWHERE)
    (project / "tests" / "claims").mkdir(parents=True)
    (project / "tests" / "claims" / "test_it.py").write_text(TESTS)
    (project / "pytest.ini").touch()
    monkeypatch.chdir(project)
    monkeypatch.setattr(runs, "noise_at_start", list)
    monkeypatch.setattr(runs, "noise_during", lambda document: [])
    return project


@pytest.fixture
def vperf(project: Path, capfd: pytest.CaptureFixture[str]) -> Vperf:
    """Runs the command in the project."""

    def run(*arguments: str) -> subprocess.CompletedProcess[str]:
        status = main(["calibrate", "--apart=0 s", *arguments])
        return subprocess.CompletedProcess(arguments, status, *capfd.readouterr())

    return run
