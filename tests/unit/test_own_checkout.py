"""`pytest -m startup`, typed in any folder of a checkout, means the startup claims."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]


@pytest.mark.parametrize("folder", [".", "docs", "tests/unit/stats"])
def test_the_startup_claims_are_collected_and_nothing_else(folder: str) -> None:
    done = subprocess.run(
        [sys.executable, "-m", "pytest", "-m", "startup", "--hw=type1", "--collect-only", "-q"],
        cwd=ROOT / folder,
        capture_output=True,
        text=True,
        timeout=100,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    collected = [line for line in done.stdout.splitlines() if "::" in line]
    assert len(collected) >= 12
    assert {line.partition("::")[0] for line in collected} == {
        "tests/claims/gallery/test_starting.py",
        "tests/claims/gallery/test_virtual_machines.py",
        "tests/claims/test_startup.py",
    }


def test_a_folder_of_tests_is_still_a_folder_of_tests() -> None:
    done = subprocess.run(
        [sys.executable, "-m", "pytest", "--collect-only", "-q"],
        cwd=ROOT / "tests" / "unit" / "stats",
        capture_output=True,
        text=True,
        timeout=100,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    collected = [line for line in done.stdout.splitlines() if "::" in line]
    assert all(line.startswith("tests/unit/stats/") for line in collected)
    assert collected
