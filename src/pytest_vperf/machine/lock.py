"""File locks (flock(2)), and the host-wide measuring lock: two measurements never overlap on a machine (design rule
12).

The measuring lock is one file for all processes and users of the machine: the kernel releases the lock when its
holder dies, however that happens. The file stays and names the holder, so that a waiter can say whom it waits for.
`filelock.FileLock` is no alternative: it empties or removes the file, and in older versions cannot open a file that
another user made in a sticky folder (fs.protected_regular).
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

from pytest_vperf import foreign_text
from pytest_vperf.machine.ownership import name

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

_POLL_SECONDS = 0.05
#: The mode of the lock's file: every user has to be able to lock it.
_MODE = 0o666
#: After this many seconds of waiting, the holder is considered stuck.
WAIT_LIMIT = 3600.0

_held_by_us = threading.RLock()
_depth = 0


def try_lock(descriptor: int, *, shared: bool = False) -> bool:
    """Lock an open file until it is closed; return whether that succeeded, as nobody else has it locked.

    Args:
        descriptor: the file's.
        shared: whether others may also lock it as shared.

    Raises:
        OSError: its file system does not support locks.
    """
    try:
        fcntl.flock(descriptor, (fcntl.LOCK_SH if shared else fcntl.LOCK_EX) | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True


class LockTimeout(Exception):
    """Another measurement held the machine for longer than we wait."""


def lock_path() -> Path:
    """The lock's file: ``$VPERF_LOCK``, or in ``/run/lock`` if everyone may write there, otherwise in ``/tmp``.

    The choice must not depend on the user: all have to use the same file.
    """
    named = os.environ.get("VPERF_LOCK")
    if named:
        return Path(named)
    folder = Path("/run/lock")
    try:
        shared = bool(folder.stat().st_mode & stat.S_IWOTH)
    except OSError:
        shared = False
    if not shared:
        folder = Path("/tmp")  # nosec B108 # what others put there is refused by open_lock
    return folder / "vperf-measuring.lock"


@contextlib.contextmanager
def measuring(
    on_wait: Callable[[str], None] | None = None, limit: float = WAIT_LIMIT
) -> Iterator[float]:
    """Hold the machine for a measurement; a process that already holds it does not wait.

    Args:
        on_wait: called now and then while waiting, with a description of the holder.
        limit: seconds to wait.

    Yields:
        the seconds spent waiting.

    Raises:
        LockTimeout: another process held the lock for the whole time.
        OSError: the lock's file cannot be opened; the message says whose it is.
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
        descriptor = open_lock(lock_path())
        try:
            waited = _acquire(descriptor, on_wait, limit)
            command = " ".join([Path(sys.argv[0] or "python").name, *sys.argv[1:]])[:120]
            note_holder(descriptor, f"process {os.getpid()} of user {os.getuid()}: {command}")
            _depth = 1
            try:
                yield waited
            finally:
                _depth = 0
                note_holder(descriptor, "")
        finally:
            os.close(descriptor)


def open_lock(path: Path) -> int:
    """Open the file of a lock for all users; it is made if it is not there.

    Raises:
        OSError: it is no lock, or cannot be opened; the message says whose it is.
    """
    flags = os.O_RDWR | os.O_CLOEXEC | os.O_NOFOLLOW | os.O_NONBLOCK
    # Never O_CREAT on an existing file: in a sticky folder the kernel then refuses another user's file.
    with contextlib.suppress(FileExistsError):
        os.close(os.open(path, flags | os.O_CREAT | os.O_EXCL, _MODE))
    try:
        descriptor = os.open(path, flags)
    except PermissionError as error:
        try:
            # Enough for locking, but not for naming the holder.
            descriptor = os.open(path, flags & ~os.O_RDWR)
        except OSError:
            raise _unusable(path, "lets nobody else open it", error) from None
    except OSError as error:
        raise _unusable(path, os.strerror(error.errno or 0), error) from None
    try:
        status = os.fstat(descriptor)
        if not stat.S_ISREG(status.st_mode):
            raise _unusable(path, "not a regular file")
        if status.st_nlink != 1:
            # Somebody may have made a hard link, to have us change the mode of our file or empty it.
            raise _unusable(path, f"it has {status.st_nlink} names")
        if status.st_uid == os.geteuid() and stat.S_IMODE(status.st_mode) != _MODE:
            if status.st_size:
                raise OSError(
                    f"the measuring lock {path} is not available: it is a file with content, and no lock; have"
                    " VPERF_LOCK name another file, the same for everybody who measures here"
                )
            # The umask removed permissions that other users need. Not for others: the content; only the lock matters.
            os.fchmod(descriptor, _MODE)
    except BaseException:
        os.close(descriptor)
        raise
    return descriptor


def _unusable(path: Path, why: str, error: OSError | None = None) -> OSError:
    """The error about a file that cannot be the lock: in a shared folder, others may have made it."""
    try:
        found = path.lstat()
    except OSError:
        return OSError(f"the measuring lock {path} is not available: {why}")
    what = "a link" if stat.S_ISLNK(found.st_mode) else f"mode {stat.S_IMODE(found.st_mode):04o}"
    return OSError(
        f"the measuring lock {path} is not available: it is of {name(found.st_uid)} ({what}): {why}; have them, or"
        f" root, remove it, or have VPERF_LOCK name another file, the same for everybody who measures here"
    )


def _acquire(descriptor: int, on_wait: Callable[[str], None] | None, limit: float) -> float:
    began = time.monotonic()
    while True:
        locked = try_lock(descriptor)
        waited = time.monotonic() - began
        if locked:
            return waited
        held_by = holder(descriptor)
        if waited >= limit:
            raise LockTimeout(
                f"another measurement ({held_by}) held this machine for {waited:.0f} s"
            )
        if on_wait is not None:
            on_wait(held_by)
        time.sleep(_POLL_SECONDS)


def holder(descriptor: int) -> str:
    """Who holds a lock, as its file says."""
    text = os.pread(descriptor, 300, 0).decode("utf-8", "replace")
    return foreign_text.line(text) or "not yet known"


def note_holder(descriptor: int, text: str) -> None:
    """Write who holds a lock, if the file is open to everybody, as a lock is: any other may be somebody's data."""
    # Another user's file may be lockable but not writable, and a full disk must not prevent measuring.
    with contextlib.suppress(OSError):
        if stat.S_IMODE(os.fstat(descriptor).st_mode) == _MODE:
            os.ftruncate(descriptor, 0)
            os.pwrite(descriptor, text.encode("utf-8", "replace"), 0)
