"""Benchmarks wait their turn, and clean up when they are interrupted."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from pytest_vperf.machine import lock

FOLDER = Path(__file__).parents[3] / "benchmarks"
BENCHMARK = """
import sys, time
from alone import alone, interruptible

def main():
    try:
        with alone():
            print("measures", flush=True)
            time.sleep(60)
    finally:
        print("cleaned up", flush=True)

sys.exit(interruptible("bench", main))
"""


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
def test_a_benchmark_waits_then_measures_then_is_interrupted(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, number: signal.Signals
) -> None:
    monkeypatch.setenv("VPERF_LOCK", str(tmp_path / "lock"))
    with lock.measuring():
        process = subprocess.Popen(
            [sys.executable, "-c", BENCHMARK],
            env={**os.environ, "PYTHONPATH": str(FOLDER)},
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        assert process.stderr is not None
        said = process.stderr.readline()
        assert said.startswith(f"waiting for another measurement: process {os.getpid()} ")
    with process:
        assert process.stdout is not None
        assert process.stdout.readline() == "measures\n"
        process.send_signal(number)
        out, err = process.communicate(timeout=60)
    assert (process.returncode, out, err) == (130, "cleaned up\n", "bench: interrupted\n")


@pytest.mark.parametrize(
    "name",
    [
        "pod_floor",
        "pod_sandbox",
        "container_start",
        "live_targets",
        "gate_aa",
        "fleet_controller",
    ],
)
def test_each_benchmark_shows_its_help(name: str) -> None:
    command = [sys.executable, str(FOLDER / f"{name}.py"), "--help"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=True)
    assert f"usage: {name}.py" in done.stdout


def test_live_targets_keeps_every_decision_and_counts_them(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("VPERF_LOCK", str(tmp_path / "lock"))
    options = ["--kind=process", "--decisions=2", "--slowdown=0.5", f"--json={tmp_path / 'out'}"]
    command = [sys.executable, str(FOLDER / "live_targets.py"), *options]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=True)
    made = json.loads((tmp_path / "out").read_text())["decisions"]
    assert sorted(each["slowdown"] for each in made) == [0.0, 0.0, 0.5, 0.5]
    assert [each["verdict"] for each in made if each["slowdown"]] == ["refuted", "refuted"]
    assert all(len(each["plain"]) + len(each["other"]) == each["samples"] for each in made)
    lines = done.stdout.splitlines()
    assert sum(line.startswith("process ") and " of 2: " in line for line in lines) == 4
    assert "2 (≥ 22.4 %)" in done.stdout
    assert "process: slower by 50 % of each run's own time, spun after it" in lines
