"""Common parts of attacks: a time limit, a memory limit, and another user who attacks."""

from __future__ import annotations

import contextlib
import os
import re
import signal
import time
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from types import FrameType

#: Unused UIDs and GIDs, which have the rights of any other local user.
STRANGER, BYSTANDER = 54321, 54322
#: Bytes that this process may grow by during an endless transfer, beyond the limit itself.
ROOM = 48 << 20
#: Text safe for a terminal: no control characters but newline and tab, no change of direction.
CONTROL = re.compile("[\0-\x08\x0b-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069]")


class Hung(BaseException):
    """Something waited for ever. Not an `Exception`, which the code under test may catch."""


@contextlib.contextmanager
def ends_within(seconds: float) -> Iterator[None]:
    """End a block that hangs, so that the test fails with a clear message."""

    def interrupt(number: int, frame: FrameType | None) -> None:
        raise Hung(f"it had not ended after {seconds:g} s")

    before = signal.signal(signal.SIGALRM, interrupt)
    signal.setitimer(signal.ITIMER_REAL, seconds)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)


@contextlib.contextmanager
def grows_less_than(size: int) -> Iterator[None]:
    """Limit how much this process's peak memory grows in the block (proc(5): clear_refs, VmHWM)."""
    Path("/proc/self/clear_refs").write_text("5")
    before = _most_memory()
    yield
    grown = _most_memory() - before
    assert grown < size, f"grew by {grown >> 20} MiB"


def _most_memory() -> int:
    lines = Path("/proc/self/status").read_text().splitlines()
    return next(int(line.split()[1]) << 10 for line in lines if line.startswith("VmHWM:"))


def as_stranger(act: Callable[[], None], user: int = STRANGER) -> None:
    """Act as another user of this machine.

    Args:
        act: run in its own process; an exception there fails here.
        user: the number of the user, and of the only group.
    """
    child = _fork(act, user)
    assert os.waitpid(child, 0)[1] == 0, "the stranger could not do it"


@contextlib.contextmanager
def stranger_at_work(act: Callable[[], None], user: int = STRANGER) -> Iterator[None]:
    """Another user of this machine repeats an action until the end of the block."""

    def work() -> None:
        while True:
            act()
            time.sleep(0.01)

    child = _fork(work, user)
    try:
        yield
    finally:
        os.kill(child, signal.SIGKILL)
        os.waitpid(child, 0)


def _fork(act: Callable[[], None], user: int) -> int:
    child = os.fork()
    if child:
        return child
    status = 1
    try:
        signal.signal(signal.SIGINT, signal.SIG_DFL)
        os.setgroups([])
        os.setresgid(user, user, user)
        os.setresuid(user, user, user)
        act()
        status = 0
    except BaseException as error:  # reported to the parent, and no further: this is a fork
        os.write(2, f"{type(error).__name__}: {error}\n".encode())
    finally:
        os._exit(status)
