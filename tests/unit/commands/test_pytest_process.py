"""The pytest process of ``vperf calibrate`` and ``vperf selfcheck`` ends with them, however they end."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from typing import TYPE_CHECKING

import psutil
import pytest

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

TEST = """
import os, pathlib, time

def test_waits():
    pathlib.Path("draft").write_text(str(os.getpid()))
    pathlib.Path("draft").rename("pid")
    time.sleep(120)
"""
COMMAND = """
from pytest_vperf.machine.ending import ending_in_order
from pytest_vperf.commands.pytest_process import run_pytest

with ending_in_order():
    print(run_pytest(["-p", "no:cacheprovider", "-p", "no:vperf", "test_waits.py"]))
"""


def wait_for(there: Callable[[], bool]) -> None:
    end = time.monotonic() + 60
    while not there():
        assert time.monotonic() < end
        time.sleep(0.02)


def is_zombie(number: int) -> bool:
    """Whether it has ended, but its new parent has not reaped it yet."""
    try:
        return psutil.Process(number).status() == psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return True


@pytest.fixture
def command(tmp_path: Path) -> Iterator[subprocess.Popen[str]]:
    """The command in the middle of a test, started in the background as by a shell without a terminal."""
    (tmp_path / "test_waits.py").write_text(TEST)
    process = subprocess.Popen(
        [sys.executable, "-c", COMMAND],
        cwd=tmp_path,
        env={**os.environ, "PYTEST_ADDOPTS": ""},
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_IGN),
    )
    try:
        wait_for(lambda: (tmp_path / "pid").exists() or process.poll() is not None)
        yield process
    finally:
        process.kill()
        process.communicate()


def test_sigterm_reaches_it_although_the_shell_ignores_sigint(
    command: subprocess.Popen[str],
) -> None:
    command.terminate()
    out, _ = command.communicate(timeout=60)
    assert out == "(2, True)\n"


def test_it_does_not_outlive_a_command_that_was_killed(
    command: subprocess.Popen[str], tmp_path: Path
) -> None:
    number = int((tmp_path / "pid").read_text())
    command.kill()
    command.wait()
    wait_for(lambda: not psutil.pid_exists(number) or is_zombie(number))
