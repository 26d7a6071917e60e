"""Ctrl-C ends what was started on another machine: with a program in place of ssh that runs it on this one."""

from __future__ import annotations

import signal
from typing import TYPE_CHECKING

import psutil
import pytest

from pytest_vperf.machine.runs import Run
from pytest_vperf.targets.base import TimedOut
from pytest_vperf.targets.ssh_host import SshHost

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path


@pytest.fixture
def host(ssh_in_place: Path) -> Iterator[SshHost]:
    assert ssh_in_place.exists()
    with Run.begin() as run, SshHost("ssh://load", run) as host:
        yield host


def interrupt(*_: object) -> None:
    raise KeyboardInterrupt


@pytest.mark.parametrize("interrupted", [True, False])
def test_nothing_goes_on_there(host: SshHost, tmp_path: Path, interrupted: bool) -> None:
    note = tmp_path / "pid"
    # Nobody's child: what waits here does not know of it.
    script = '(setsid sh -c "echo \\$\\$ >$1; exec sleep 60" <&- >&- 2>&- &); sleep 60'
    before = signal.signal(signal.SIGALRM, interrupt)
    try:
        if interrupted:
            signal.setitimer(signal.ITIMER_REAL, 0.7)
        with pytest.raises(KeyboardInterrupt if interrupted else TimedOut):
            host.run(["sh", "-c", script, "sh", str(note)], timeout=1.0)
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)
    pid = int(note.read_text())
    assert not psutil.pid_exists(pid) or psutil.Process(pid).status() == psutil.STATUS_ZOMBIE
