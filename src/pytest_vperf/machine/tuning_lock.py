"""Who may change this machine's settings: one process at a time, until they are as they were.

The lock is one open file that the process and its guardian share, so it is free only when both have ended.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import time
from typing import TYPE_CHECKING

from pytest_vperf.machine.runs import runs_folder

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

#: How long the guardian of a process that died may take to restore, before it is waited for no more, in s.
PATIENCE = 5.0


class TuningError(Exception):
    """Settings could not be changed, or not be restored; the text is for the user, a line for each thing."""


class Busy(TuningError):
    """Another process has changed the settings and will restore them."""


def _lock_path() -> Path:
    return runs_folder() / "tuning.lock"


@contextlib.contextmanager
def exclusive() -> Iterator[int]:
    """Hold the lock on the settings; its descriptor, which the guardian gets too.

    Raises:
        Busy: a process that lives holds it.
        OSError: its file cannot be opened.
    """
    flags = os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW
    descriptor = os.open(_lock_path(), flags, 0o600)
    try:
        _acquire(descriptor)
        os.ftruncate(descriptor, 0)
        os.pwrite(descriptor, str(os.getpid()).encode(), 0)
        try:
            yield descriptor
        finally:
            os.ftruncate(descriptor, 0)
    finally:
        os.close(descriptor)


def _acquire(descriptor: int) -> None:
    """Take the lock; a guardian whose process died is given time to finish."""
    deadline = time.monotonic() + PATIENCE
    while True:
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            holder = os.pread(descriptor, 20, 0).decode("ascii", "replace")
        else:
            return
        if holder.isdecimal() and _lives(int(holder)):
            raise Busy(
                f"process {holder} has changed the settings of this machine, and will restore them; "
                "wait for its end, or end it"
            )
        if time.monotonic() > deadline:
            raise Busy(
                "the settings of this machine are still being restored after a process that was killed"
            )
        time.sleep(0.02)


def _lives(pid: int) -> bool:
    import psutil

    from pytest_vperf.machine.marks import gone

    try:
        return not gone(psutil.Process(pid))
    except psutil.Error:
        return False


def is_held() -> bool:
    """Whether somebody holds the lock now."""
    try:
        descriptor = os.open(_lock_path(), os.O_RDWR | os.O_CLOEXEC | os.O_NOFOLLOW)
    except OSError:
        return False
    try:
        fcntl.flock(descriptor, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except BlockingIOError:
        return True
    finally:
        os.close(descriptor)
    return False
