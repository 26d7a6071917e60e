"""Processes that the kernel ends with the one that started them, however that dies (prctl(2), PR_SET_PDEATHSIG).

The signal comes when the *thread* that forked ends, and the wish is lost where a process changes its user or executes
a set-user-ID program. So what is to live as long as this process is forked by a thread that does.
"""

from __future__ import annotations

import ctypes
import os
import queue
import threading
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import subprocess
    from collections.abc import Callable, Sequence
    from concurrent.futures import Future
    from signal import Signals

_PR_SET_PDEATHSIG = 1  # prctl(2)


def at_parents_death(number: Signals) -> Callable[[], None]:
    """What a new process calls (``preexec_fn``) to be sent a signal when the thread that started it ends.

    Args:
        number: the signal. What the process starts itself does not get it.
    """
    # Found here: between fork and exec there may be no locks to take.
    prctl = ctypes.CDLL(None).prctl
    parent = os.getpid()

    def ask() -> None:
        prctl(_PR_SET_PDEATHSIG, number)
        if os.getppid() != parent:  # it died before it was asked for
            os.kill(os.getpid(), number)

    return ask


def end_with_parent(number: Signals) -> None:
    """Have this process sent a signal when the thread that started it ends; at once where it has ended already."""
    parent = os.getppid()
    ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, number)
    if os.getppid() != parent:
        os.kill(os.getpid(), number)


def start_bound(argv: Sequence[str], number: Signals, **options: Any) -> subprocess.Popen[bytes]:
    """Start a process that is sent a signal when this process ends, whichever thread calls this.

    Args:
        argv: the command. It must stay the user that it is: see the module.
        number: the signal.
        options: of `subprocess.Popen`.

    Raises:
        OSError: it cannot be executed.
    """
    from concurrent.futures import Future

    made: Future[subprocess.Popen[bytes]] = Future()
    _parent().put((made, list(argv), {**options, "preexec_fn": at_parents_death(number)}))
    try:
        return made.result()
    except BaseException:  # an interrupt, most likely: nobody would own it
        made.add_done_callback(_end)
        raise


def _end(made: Future[subprocess.Popen[bytes]]) -> None:
    if made.exception() is None:
        made.result().kill()
        made.result().wait()


_orders: dict[int, queue.SimpleQueue[Any]] = {}
_lock = threading.Lock()


def _parent() -> queue.SimpleQueue[Any]:
    """The orders of this process's thread that forks; a fork of this process has none, and makes its own."""
    with _lock:
        if os.getpid() not in _orders:
            _orders.clear()
            orders: queue.SimpleQueue[Any] = queue.SimpleQueue()
            _orders[os.getpid()] = orders
            # A daemon: it ends with the process, and holds up nothing.
            threading.Thread(target=_fork, args=(orders,), name="vperf-forks", daemon=True).start()
        return _orders[os.getpid()]


def _fork(orders: queue.SimpleQueue[Any]) -> None:
    import subprocess

    while True:
        made, argv, options = orders.get()
        try:
            made.set_result(subprocess.Popen(argv, **options))
        except BaseException as error:
            made.set_exception(error)
