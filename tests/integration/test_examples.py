"""The packages of `examples/` whose tests start targets."""

from __future__ import annotations

import subprocess
import sys
import tempfile
from pathlib import Path

import pytest
from engine_here import require
from installed_examples import install, run_tests

from pytest_vperf.machine import leftovers, mounts
from pytest_vperf.machine.preflight import program

#: What podman needs where there is no systemd, and root may not raise limits.
PODMAN = """
[containers]
default_ulimits = ["nofile=1024:1024", "nproc=4096:4096"]
[engine]
runtime = "runc"
cgroup_manager = "cgroupfs"
events_logger = "none"
"""
KILLED = """
import os

def test_it(podman):
    os.kill(os.getpid(), 9)
"""


@pytest.fixture
def podman(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """podman, as it works here."""
    require("container", program("podman", "podman"))
    (tmp_path / "containers.conf").write_text(PODMAN)
    monkeypatch.setenv("CONTAINERS_CONF", str(tmp_path / "containers.conf"))


@pytest.mark.timeout(600)
@pytest.mark.usefixtures("podman")
def test_the_tests_of_the_kind_of_target(tmp_path: Path) -> None:
    assert " 1 passed " in run_tests("podman", tmp_path)


@pytest.mark.usefixtures("podman")
def test_nothing_stays_of_a_killed_run_with_such_a_target(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    # A short path, since podman has sockets in it.
    with tempfile.TemporaryDirectory(prefix="vperf-", dir="/var/tmp") as runs:
        monkeypatch.setenv("VPERF_RUNS_DIR", runs)
        monkeypatch.setenv("PYTHONPATH", str(install("podman", tmp_path)))
        (tmp_path / "test_killed.py").write_text(KILLED)
        words = [sys.executable, "-m", "pytest", "-p", "no:cacheprovider", "test_killed.py"]
        assert subprocess.run(words, cwd=tmp_path, check=False).returncode == -9
        (run,) = Path(runs).glob("run-*")
        left = [str(each) for each in leftovers.find()]
        assert any("conmon" in each for each in left)
        assert any("overlay-containers" in each for each in left)
        assert leftovers.remove(leftovers.find()) == []
        assert not run.exists()
        assert mounts.below(Path(runs)) == []
        assert not list(Path("/sys/fs/cgroup").glob(f"*/*{run.name.removeprefix('run-')}*"))


@pytest.mark.timeout(600)
def test_the_tests_of_the_tool(tmp_path: Path) -> None:
    assert " 5 passed " in run_tests("hackbench", tmp_path)
