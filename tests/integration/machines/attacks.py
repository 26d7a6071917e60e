"""What attacks have in common: an end to what hangs, a look at what it cost, and another user to do it."""

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

#: Numbers of users, each of a group, that nobody has here: what another local user may do, they may.
STRANGER, BYSTANDER = 54321, 54322
#: Bytes that this process may grow by while somebody sends without end, beside what the limit allows.
ROOM = 48 << 20
#: What reaches a terminal is text: no control character but newline and tab, none that turns its direction.
CONTROL = re.compile("[\0-\x08\x0b-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069]")


class Hung(BaseException):
    """Something waited for ever; no `Exception`, which the code under test may catch."""


@contextlib.contextmanager
def ends_within(seconds: float) -> Iterator[None]:
    """End what hangs, so that the test fails in its own words."""

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
    """Compare the most memory that this process has meanwhile with what it has now (proc(5): clear_refs, VmHWM)."""
    Path("/proc/self/clear_refs").write_text("5")
    before = _most_memory()
    yield
    grown = _most_memory() - before
    assert grown < size, f"grew by {grown >> 20} MiB"


def _most_memory() -> int:
    lines = Path("/proc/self/status").read_text().splitlines()
    return next(int(line.split()[1]) << 10 for line in lines if line.startswith("VmHWM:"))


def as_stranger(act: Callable[[], None], user: int = STRANGER) -> None:
    """Do something as another user of this machine.

    Args:
        act: run in a process of its own; what it raises makes this fail.
        user: the number of the user, and of the only group.
    """
    child = _fork(act, user)
    assert os.waitpid(child, 0)[1] == 0, "the stranger could not do it"


@contextlib.contextmanager
def stranger_at_work(act: Callable[[], None], user: int = STRANGER) -> Iterator[None]:
    """Another user of this machine does something again and again, until the end of the block."""

    def work() -> None:
        while True:
            act()
            time.sleep(0.001)

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
    except BaseException as error:  # told to the parent, and no further: this is a fork
        os.write(2, f"{type(error).__name__}: {error}\n".encode())
    finally:
        os._exit(status)
