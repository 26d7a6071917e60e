"""The host-wide measuring lock: two measurements never overlap on a machine (design rule 12).

One file for every process and user of the machine, locked with flock(2): the kernel drops the lock with its
holder, however that dies. The file stays and holds who has the lock, so that a waiter can say whom it waits
for. This is flock itself and not a `filelock.FileLock`, which empties or removes the file, and in its older
versions cannot open a file that another user made in a sticky folder (fs.protected_regular).
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import stat
import sys
import threading
import time
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

_POLL_SECONDS = 0.05
#: After this many seconds of waiting the holder is taken for stuck.
WAIT_LIMIT = 3600.0

_held_by_us = threading.RLock()
_depth = 0


class LockTimeout(Exception):
    """Another measurement held the machine for longer than we wait."""


def lock_path() -> Path:
    """The lock's file: ``$VPERF_LOCK``, else in ``/run/lock`` where everyone may write there, else in ``/tmp``.

    The choice depends on nothing that differs between users, or they would not meet.
    """
    named = os.environ.get("VPERF_LOCK")
    if named:
        return Path(named)
    folder = Path("/run/lock")
    try:
        shared = bool(folder.stat().st_mode & stat.S_IWOTH)
    except OSError:
        shared = False
    return (folder if shared else Path("/tmp")) / "vperf-measuring.lock"  # noqa: S108 - checked in _open


@contextlib.contextmanager
def measuring(
    on_wait: Callable[[str], None] | None = None, limit: float = WAIT_LIMIT
) -> Iterator[float]:
    """Hold the machine for a measurement; in the process that holds it already, at once.

    Args:
        on_wait: called now and then while waiting, with a description of the holder.
        limit: seconds to wait.

    Yields:
        the seconds that were waited.

    Raises:
        LockTimeout: another process held the lock all the time.
        OSError: the lock's file cannot be opened.
    """
    global _depth
    with _held_by_us:
        if _depth:
            _depth += 1
            try:
                yield 0.0
            finally:
                _depth -= 1
            return
        descriptor = _open(lock_path())
        try:
            waited = _acquire(descriptor, on_wait, limit)
            _write_holder(descriptor)
            _depth = 1
            try:
                yield waited
            finally:
                _depth = 0
                os.ftruncate(descriptor, 0)
        finally:
            os.close(descriptor)


def _open(path: Path) -> int:
    flags = os.O_RDWR | os.O_CLOEXEC | os.O_NOFOLLOW | os.O_NONBLOCK
    # Never O_CREAT on a file that is there: in a sticky folder the kernel then refuses another user's file.
    with contextlib.suppress(FileExistsError):
        os.close(os.open(path, flags | os.O_CREAT | os.O_EXCL, 0o666))
    descriptor = os.open(path, flags)
    try:
        status = os.fstat(descriptor)
        if not stat.S_ISREG(status.st_mode):
            raise OSError(f"{path} is not a regular file; the measuring lock cannot be had")
        if status.st_uid == os.geteuid() and stat.S_IMODE(status.st_mode) != 0o666:
            os.fchmod(descriptor, 0o666)  # the umask took bits away that other users need
    except BaseException:
        os.close(descriptor)
        raise
    return descriptor


def _acquire(descriptor: int, on_wait: Callable[[str], None] | None, limit: float) -> float:
    began = time.monotonic()
    while True:
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            waited = time.monotonic() - began
        else:
            return time.monotonic() - began
        holder = _holder(descriptor)
        if waited >= limit:
            raise LockTimeout(
                f"another measurement ({holder}) held this machine for {waited:.0f} s"
            )
        if on_wait is not None:
            on_wait(holder)
        time.sleep(_POLL_SECONDS)


def _holder(descriptor: int) -> str:
    text = os.pread(descriptor, 300, 0).decode("utf-8", "replace")
    line = "".join(character for character in text if character.isprintable())
    return line or "not yet known"


def _write_holder(descriptor: int) -> None:
    command = " ".join([Path(sys.argv[0] or "python").name, *sys.argv[1:]])[:120]
    line = f"process {os.getpid()} of user {os.getuid()}: {command}"
    os.ftruncate(descriptor, 0)
    os.pwrite(descriptor, line.encode("utf-8", "replace"), 0)
