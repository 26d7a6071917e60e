"""``vperf selfcheck`` on a real container, with so few decisions that nothing can be concluded."""

from __future__ import annotations

import json
import subprocess
import sys
from typing import TYPE_CHECKING

import pytest

from pytest_vperf.targets.container import engine as engines

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from pytest_vperf.machine.preflight import Readiness

pytestmark = pytest.mark.patient

THRESHOLDS = """
hardware: {name: any, match: {}}
claims:
  start.container: {at_most: 5 min, judge: {pairs: 4}}
"""
TEST = """
def test_container(claim, containers):
    claim("start.container").holds(lambda: containers.start().startup_time)
"""


def test_selfcheck_of_a_container_without_enough_decisions(
    runs_dir: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    require: Callable[[str, Readiness], None],
) -> None:
    require("container", engines.check(["runc"])[1])
    monkeypatch.delenv("VPERF_REQUIRE", raising=False)
    (tmp_path / "thresholds").mkdir()
    (tmp_path / "thresholds" / "any.yaml").write_text(THRESHOLDS)
    (tmp_path / "test_it.py").write_text(TEST)
    options = ["--decisions=2", "--pairs=4", "--json=out.json", "--", "test_it.py"]
    done = subprocess.run(
        [sys.executable, "-m", "pytest_vperf", "selfcheck", "start.container", *options],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        timeout=600,
        check=False,
    )
    assert done.returncode == 1, done.stderr
    (line,) = (each for each in done.stdout.splitlines() if each.endswith("too few"))
    assert line.split()[:4] == ["start.container", "2", "of", "2"]
    (metric,) = json.loads((tmp_path / "out.json").read_text())["metrics"]
    assert [each["about"] for each in metric["decided"]] == ["A/A", "A/A", "slower"]
    assert metric["unit"] == "ms"
    assert [len(each["values"]) for each in metric["decided"]] == [10, 8, 8]
    assert all(value > 0 for each in metric["decided"] for value in each["values"])
    assert list(runs_dir.iterdir()) == []
