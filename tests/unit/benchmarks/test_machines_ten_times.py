"""The benchmark that starts machines again and again: its words, and what it looks for at the end."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest
from machines_ten_times import of_system

SCRIPT = Path(__file__).parents[3] / "benchmarks" / "machines_ten_times.py"


def test_it_shows_its_help() -> None:
    done = subprocess.run(
        [sys.executable, str(SCRIPT), "--help"],
        capture_output=True,
        text=True,
        timeout=60,
        check=True,
    )
    assert "--kill" in done.stdout


@pytest.mark.parametrize("wrong", ["--kill=11", "--rounds=0", "--kind=domu"])
def test_what_cannot_be_played_is_refused(wrong: str) -> None:
    done = subprocess.run(
        [sys.executable, str(SCRIPT), wrong],
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert done.returncode == 2
    assert "error: " in done.stderr


def test_what_is_left_is_found(tmp_path: Path) -> None:
    folder = tmp_path / "run-0a1b2c3d"
    assert of_system("0a1b2c3d", folder) == []
    folder.mkdir()
    with subprocess.Popen(["sleep", "60"], env={"VPERF_RUN": "0a1b2c3d"}) as process:
        found = of_system("0a1b2c3d", folder)
        process.kill()
    assert found == [f"folder {folder}", f"process {process.pid} sleep"]
