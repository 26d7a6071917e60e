"""Commands that leave processes behind: only their own end is waited for."""

from __future__ import annotations

import os
import time
from typing import TYPE_CHECKING

import psutil
import pytest

from pytest_vperf.targets.process import OutOfTime, run_detached

if TYPE_CHECKING:
    from pathlib import Path

ENV = dict(os.environ)


def test_what_it_leaves_holds_nothing_up(tmp_path: Path) -> None:
    log = tmp_path / "log"
    script = "sleep 60 & echo $!; echo said >&2; exit 3"
    began = time.monotonic()
    done = run_detached(["sh", "-c", script], env=ENV, log=log, timeout=50)
    left, said = done.stderr.split()
    psutil.Process(int(left)).kill()
    assert time.monotonic() - began < 50
    assert (done.returncode, said) == (3, b"said")
    assert done.cpu_time > 0


def test_at_its_time_limit_it_ends_with_what_it_started(tmp_path: Path) -> None:
    with pytest.raises(OutOfTime) as caught:
        run_detached(["sh", "-c", "echo $$; sleep 60"], env=ENV, log=tmp_path / "log", timeout=0.5)
    # The shell may live long enough to say that its command was killed.
    said = caught.value.output.stderr.split()
    assert not psutil.pid_exists(int(said[0]))


def test_a_program_that_is_missing_and_a_signal(tmp_path: Path) -> None:
    log = tmp_path / "log"
    assert run_detached(["/no/such"], env=ENV, log=log).returncode == 127
    assert run_detached(["sh", "-c", "kill -9 $$"], env=ENV, log=log).returncode == 137


def test_output_is_kept_up_to_a_limit(tmp_path: Path) -> None:
    script = "head -c 100000 /dev/zero"
    assert len(run_detached(["sh", "-c", script], env=ENV, log=tmp_path / "log").stderr) == 1 << 16
