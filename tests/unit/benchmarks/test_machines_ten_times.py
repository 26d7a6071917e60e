"""The benchmark that starts machines repeatedly: its arguments, and its final search for leftovers."""

from __future__ import annotations

import contextlib
import os
import secrets
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from machines_ten_times import of_system

if TYPE_CHECKING:
    from collections.abc import Iterator

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


@pytest.mark.parametrize("wrong", ["--kill=11", "--rounds=0", "--kind=pod"])
def test_bad_arguments_are_refused(wrong: str) -> None:
    done = subprocess.run(
        [sys.executable, str(SCRIPT), wrong],
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert done.returncode == 2
    assert "error: " in done.stderr


@contextlib.contextmanager
def running(*argv: str, **environment: str) -> Iterator[subprocess.Popen[bytes]]:
    """A process that has answered: before that, others do not see its command line and environment."""
    pipe = subprocess.PIPE
    with subprocess.Popen(argv, env=environment, stdin=pipe, stdout=pipe) as process:
        assert process.stdin is not None
        assert process.stdout is not None
        process.stdin.write(b"x")
        process.stdin.flush()
        assert process.stdout.read(1) == b"x"
        try:
            yield process
        finally:
            process.kill()


@pytest.fixture
def identity() -> str:
    """A run ID that no run on this machine and no other test's arguments have."""
    return secrets.token_hex(4)


def test_leftovers_are_found(tmp_path: Path, identity: str) -> None:
    folder = tmp_path / f"run-{identity}"
    assert of_system(identity, folder) == []
    folder.mkdir()
    with running("cat", VPERF_RUN=identity) as process:
        found = of_system(identity, folder)
    assert found == [f"folder {folder}", f"process {process.pid} cat"]


def test_control_groups_may_come_and_go_meanwhile(
    tmp_path: Path, identity: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Others work on this machine, too."""
    (tmp_path / f"cpu/vperf-{identity}/c").mkdir(parents=True)
    (tmp_path / "cpu/another").mkdir()
    scandir = os.scandir

    def vanishing(path: Any) -> Any:
        if str(path).endswith("another"):
            Path(path).rmdir()
        return scandir(path)

    monkeypatch.setattr(os, "scandir", vanishing)
    found = of_system(identity, tmp_path / "none", tmp_path)
    assert found == [f"cgroup {tmp_path}/cpu/vperf-{identity}"]
    assert not (tmp_path / "cpu/another").exists()
