"""A test run without claims pays almost nothing for the plugin."""

from __future__ import annotations

import subprocess
import sys
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pathlib import Path

PROGRAM = """
import sys
import pytest
pytest.main(["-q", "-p", "no:hypothesispytest", "-p", "no:xdist", *sys.argv[1:]])
print("MODULES", *sorted(sys.modules))
"""


def modules(folder: Path, *options: str) -> set[str]:
    """The modules that a run in a folder imports."""
    command = [sys.executable, "-c", PROGRAM, *options]
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True, check=True)
    return set(done.stdout.splitlines()[-1].split()[1:])


def test_modules_imported_without_a_claim(tmp_path: Path) -> None:
    (tmp_path / "test_it.py").write_text("def test_it(tmp_path): pass\n")
    found = modules(tmp_path) - modules(tmp_path, "-p", "no:vperf")
    assert found == {
        "pytest_vperf",
        "pytest_vperf.fixtures",
        "pytest_vperf.fixtures.on_demand",
        "pytest_vperf.hookspecs",
        "pytest_vperf.plugin",
        "pytest_vperf.pytest_internals",
        "pytest_vperf.run",
        "pytest_vperf.run.options",
        "pytest_vperf.run.reports",
        "pytest_vperf.run.stash",
    }
