"""Ctrl-C ends commands on another machine, with a program in place of ssh that runs them here."""

from __future__ import annotations

import contextlib
import signal
import threading
from typing import TYPE_CHECKING

import psutil
import pytest

from pytest_vperf.machine.runs import Run
from pytest_vperf.targets.base import TimedOut
from pytest_vperf.targets.remote.ssh import SshHost

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path


@pytest.fixture
def host(ssh_in_place: Path) -> Iterator[SshHost]:
    assert ssh_in_place.exists()
    with Run.begin() as run, SshHost("ssh://load", run) as host:
        yield host


def written(note: Path) -> bool:
    return note.exists() and note.read_text().endswith("\n")


@contextlib.contextmanager
def interrupted_when(note: Path) -> Iterator[None]:
    """Ctrl-C in the block as soon as the note is written, which may be long after the block began."""
    main, over = threading.get_ident(), threading.Event()

    def interrupt() -> None:
        while not over.wait(0.01):
            if written(note):
                signal.pthread_kill(main, signal.SIGINT)
                return

    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    thread = threading.Thread(target=interrupt)
    thread.start()
    try:
        yield
    finally:
        over.set()
        thread.join()
        signal.signal(signal.SIGINT, before)


@pytest.fixture
def note(tmp_path: Path) -> Path:
    return tmp_path / "pid"


def wait_there(host: SshHost, note: Path, timeout: float) -> None:
    """Run a process there that is nobody's child, and so is awaited by nobody; it notes its PID."""
    script = '(setsid sh -c "echo \\$\\$ >$1; exec sleep 600" <&- >&- 2>&- &); sleep 600'
    host.run(["sh", "-c", script, "sh", str(note)], timeout=timeout)


def check_ended(note: Path) -> None:
    pid = int(note.read_text())
    assert not psutil.pid_exists(pid) or psutil.Process(pid).status() == psutil.STATUS_ZOMBIE


def test_remote_commands_end_with_an_interrupt(host: SshHost, note: Path) -> None:
    with pytest.raises(KeyboardInterrupt), interrupted_when(note):
        wait_there(host, note, timeout=60)
    check_ended(note)


def test_remote_commands_end_at_the_time_limit(host: SshHost, note: Path) -> None:
    # On a busy machine the limit may pass before anything began, which proves nothing.
    for limit in (1, 4, 16, 60):
        with pytest.raises(TimedOut):
            wait_there(host, note, timeout=limit)
        if written(note):
            break
    check_ended(note)
