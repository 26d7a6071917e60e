"""The runs of ``vperf calibrate``: spaced, interrupted, continued."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
import time
from pathlib import Path
from types import SimpleNamespace
from typing import TYPE_CHECKING

import pytest

from pytest_vperf.commands.calibrate import runs

if TYPE_CHECKING:
    from collections.abc import Callable

    Vperf = Callable[..., subprocess.CompletedProcess[str]]


def test_runs_are_spaced_by_the_requested_time(
    vperf: Vperf, monkeypatch: pytest.MonkeyPatch
) -> None:
    waited: list[float] = []
    monkeypatch.setattr(runs, "time", SimpleNamespace(sleep=waited.append))
    done = vperf("--hw=desk", "--runs=3", "-k", "rate", "--apart=1 h")
    assert len(waited) == 2
    assert all(3500 < seconds <= 3600 for seconds in waited)
    assert "vperf calibrate: the next run begins in 3" in done.stderr


def test_records_of_other_tests_are_not_continued(vperf: Vperf) -> None:
    assert vperf("--hw=desk", "--runs=3", "-k", "rate", "--records=kept").returncode == 0
    done = vperf("--hw=desk", "--runs=4", "-k", "shell", "--records=kept")
    assert done.returncode == 2
    assert done.stderr == (
        "vperf calibrate: kept has the runs of `pytest -k rate` for --hw=desk: use these options, or another folder\n"
    )
    assert vperf("--hw=desk", "--runs=4", "-k", "rate", "--records=kept").returncode == 0
    assert Path("runs").read_text() == "xxxx"
    kept = json.loads(Path("kept/run-2.json").read_text())
    kept["fingerprint"]["kernel"] = "1.0"
    Path("kept/run-2.json").write_text(json.dumps(kept))
    done = vperf("--hw=desk", "--runs=4", "-k", "rate", "--records=kept")
    assert done.returncode == 2
    assert "kept/run-2.json is from another machine: kernel was '1.0', is now " in done.stderr


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
def test_an_interrupt_keeps_the_file_and_the_records(
    project: Path, vperf: Vperf, number: signal.Signals
) -> None:
    words = ["--hw=desk", "--runs=3", "--apart=0 s", "--noisy", "-k", "slow", "--records=kept"]
    command = [sys.executable, "-m", "pytest_vperf", "calibrate", *words]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    try:
        while not Path("kept/run-1.json").exists():
            assert process.poll() is None
            time.sleep(0.01)
        Path("sampled").unlink()
        while not Path("sampled").exists():
            assert process.poll() is None
            time.sleep(0.01)
        process.send_signal(number)
        out, err = process.communicate(timeout=60)
    finally:
        process.kill()
        process.wait()
    assert (process.returncode, out) == (130, "")
    assert err.endswith(
        "vperf calibrate: interrupted after 1 of 3 runs; no threshold file was changed\n"
        "vperf calibrate: to go on, repeat the command with --records=kept\n"
        "vperf: interrupted\n"
    )
    assert not list(Path("thresholds").glob("desk*"))
    begun = Path("kept/run-1.json").read_bytes()
    done = vperf(*words)
    assert done.returncode == 0
    assert (
        "start.slow: all 72 samples are exactly 50 ms: is something cached or constant?"
        in done.stdout
    )
    assert "2.01 %, the least there is" in done.stdout or "2 %, the least there is" in done.stdout
    assert Path("kept/run-1.json").read_bytes() == begun
