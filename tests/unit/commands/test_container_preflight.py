"""The check of containers starts nothing while something is measured."""

from __future__ import annotations

import fcntl
from functools import partial
from typing import TYPE_CHECKING

from pytest_vperf.commands import doctor
from pytest_vperf.machine import lock
from pytest_vperf.machine.preflight import Readiness
from pytest_vperf.targets.container import engine as engines

if TYPE_CHECKING:
    from pathlib import Path

    import pytest


def test_it_waits_for_a_measurement_and_says_if_that_does_not_end(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "lock"
    monkeypatch.setenv("VPERF_LOCK", str(path))
    monkeypatch.setenv("VPERF_RUNS_DIR", str(tmp_path / "runs"))
    monkeypatch.setattr(doctor, "measuring", partial(lock.measuring, limit=0))
    quick = [Readiness("container", True, "there"), Readiness("container runc", True, "1.1")]
    monkeypatch.setattr(engines, "check", lambda runtimes: quick)
    with path.open("w+") as held:
        path.chmod(0o666)  # as a lock is
        held.write("process 7 of user 0: pytest")
        held.flush()
        fcntl.flock(held, fcntl.LOCK_EX)
        answers = doctor.check(("runc",))
    why = "another measurement (process 7 of user 0: pytest) held this machine for 0 s"
    assert answers == [
        Readiness("container", False, why),
        Readiness("container runc", False, why),
    ]
    assert not (tmp_path / "runs").exists()
