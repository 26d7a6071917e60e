"""An orderly end of a run, and of the processes it started. Ctrl-C, SIGTERM and SIGHUP end a run in order, and once:
targets are stopped, and results are kept. A closed terminal or a lost SSH connection sends SIGHUP (signal(7)); under
nohup(1) it stays ignored. One event often sends several signals: the kernel and the shell both send SIGHUP,
timeout(1) signals the process and then its group. So only an impatient Ctrl-C cuts short an ending under way.

The kernel can end a process together with its parent, however that dies (prctl(2), PR_SET_PDEATHSIG).

The signal comes when the *thread* that forked ends, and the setting is lost if the process changes its user or
executes a set-user-ID program. So processes that should live as long as this one are forked by a thread that does.
"""

from __future__ import annotations

import contextlib
import ctypes
import os
import queue
import select
import signal
import stat
import subprocess
import sys
import threading
import time
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence
    from concurrent.futures import Future
    from signal import Signals
    from types import FrameType


#: The signals that end a run, and the default handler of each.
_ENDING = {
    signal.SIGINT: signal.default_int_handler,
    signal.SIGTERM: signal.SIG_DFL,
    signal.SIGHUP: signal.SIG_DFL,
}
#: Signals within this many seconds count as one: no finger is faster.
_ONE = 0.5
#: Seconds until an interrupt that Python could only report, e.g. in a finaliser, is raised again.
_AGAIN = 0.05
_INSIST = b"\nvperf: ending what was started; another Ctrl-C leaves it to the next run, which removes it\n"


class Endings:
    """The signal handlers of one process, and whether it is ending. Made by `ending_in_order`."""

    def __init__(self) -> None:
        self._raised: KeyboardInterrupt | None = None
        self._number = signal.SIGINT
        self._begun = False
        self._last = -_ONE
        self._asked = False

    def begin(self) -> None:
        """Note that the run is ending, so that further signals do not interrupt it."""
        self._begun = True

    def heard(self, number: int, frame: FrameType | None) -> None:
        """Handle a signal.

        Raises:
        KeyboardInterrupt: the end has not begun, or somebody insists.
        """
        if number == signal.SIGHUP:
            _leave_dead_terminals()
        now = time.monotonic()
        if self._under_way():
            insists = number == signal.SIGINT and now - self._last > _ONE
            self._last = now
            if not insists:
                return
            if not self._asked:
                self._asked = True
                with contextlib.suppress(OSError):
                    os.write(2, _INSIST)
                return
        self._last, self._number = now, signal.Signals(number)
        words = () if number == signal.SIGINT else (self._number.name,)
        self._raised = KeyboardInterrupt(*words)
        raise self._raised

    def _under_way(self) -> bool:
        """Whether the run is ending: after `begin`, or while our interrupt is unwinding or being handled."""
        error = sys.exc_info()[1]
        seen = 0
        while error is not None and error is not self._raised and seen < 1000:
            error, seen = error.__context__, seen + 1
        return self._begun or (error is not None and error is self._raised)

    def lost(self, unraisable: Any) -> None:
        """Handle an error that Python could only report, e.g. in a finaliser: our interrupt is raised again."""
        if self._raised is not None and unraisable.exc_value is self._raised:
            self._raised, again = None, self._number
            later = threading.Timer(_AGAIN, os.kill, (os.getpid(), again))
            later.daemon = True
            later.start()


@contextlib.contextmanager
def ending_in_order() -> Iterator[Endings]:
    """Within the context, the first Ctrl-C, SIGTERM or SIGHUP raises `KeyboardInterrupt` in the main thread.

    A signal that is ignored, or has another handler, is left alone, as is everything outside the main thread, where
    Python does not allow handlers.
    """
    endings = Endings()
    if threading.current_thread() is not threading.main_thread():
        yield endings
        return
    mine = {number: usual for number, usual in _ENDING.items() if signal.getsignal(number) is usual}
    if not mine:
        yield endings
        return
    earlier = sys.unraisablehook

    def unraisable(error: Any) -> None:
        endings.lost(error)
        earlier(error)

    try:
        sys.unraisablehook = unraisable
        for number in mine:
            signal.signal(number, endings.heard)
        yield endings
    finally:
        for number, usual in mine.items():
            signal.signal(number, usual)
        if sys.unraisablehook is unraisable:
            sys.unraisablehook = earlier


def _leave_dead_terminals() -> None:
    """Lead what this process has open of a terminal that hung up to nowhere: an error of each ``write`` to it would
    else take the place of the interrupt, and the summary's would be the end of it.
    """
    with contextlib.suppress(OSError):
        nowhere = os.open(os.devnull, os.O_RDWR | os.O_CLOEXEC)
        try:
            for name in os.listdir("/proc/self/fd"):  # noqa: PTH208 - names, which are numbers
                with contextlib.suppress(OSError):
                    _leave_if_dead(int(name), nowhere)
        finally:
            os.close(nowhere)


def _leave_if_dead(descriptor: int, nowhere: int) -> None:
    if not stat.S_ISCHR(os.fstat(descriptor).st_mode):
        return
    poll = select.poll()
    poll.register(descriptor, 0)  # poll(2) always reports a hang-up
    if any(seen & select.POLLHUP for _, seen in poll.poll(0)):
        os.dup2(nowhere, descriptor, os.get_inheritable(descriptor))


_PR_SET_PDEATHSIG = 1  # prctl(2)


def at_parents_death(number: Signals) -> Callable[[], None]:
    """A ``preexec_fn`` that has a new process signalled when the thread that started it ends.

    Args:
        number: the signal; the process's own children do not get it.
    """
    # Found here: between fork and exec there may be no locks to take.
    prctl = ctypes.CDLL(None).prctl
    parent = os.getpid()

    def ask() -> None:
        prctl(_PR_SET_PDEATHSIG, number)
        if os.getppid() != parent:  # the parent died before the call
            os.kill(os.getpid(), number)

    return ask


def end_with_parent(number: Signals) -> None:
    """Have this process signalled when the thread that started it ends, or at once if it already has."""
    parent = os.getppid()
    ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, number)
    if os.getppid() != parent:
        os.kill(os.getpid(), number)


def end_with(owner: int, number: Signals) -> None:
    """Have this process signalled when a process that is not its parent ends, or at once if it already has.

    Args:
        owner: the number of that process.
        number: the signal.
    """
    import psutil

    def wait() -> None:
        with contextlib.suppress(psutil.NoSuchProcess):
            psutil.Process(owner).wait()
        os.kill(os.getpid(), number)

    threading.Thread(target=wait, name="vperf-ends", daemon=True).start()


def start_bound(argv: Sequence[str], number: Signals, **options: Any) -> subprocess.Popen[bytes]:
    """Start a process that is signalled when this process ends, whichever thread calls this.

    Args:
        argv: the command; it must not change its user, see the module.
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
    except BaseException:  # most likely an interrupt: nobody would own the process
        made.add_done_callback(_end)
        raise


def _end(made: Future[subprocess.Popen[bytes]]) -> None:
    if made.exception() is None:
        made.result().kill()
        made.result().wait()


_orders: dict[int, queue.SimpleQueue[Any]] = {}
_lock = threading.Lock()


def _parent() -> queue.SimpleQueue[Any]:
    """The queue of this process's forking thread; a fork of this process starts its own."""
    with _lock:
        if os.getpid() not in _orders:
            _orders.clear()
            orders: queue.SimpleQueue[Any] = queue.SimpleQueue()
            _orders[os.getpid()] = orders
            # A daemon thread ends with the process, without holding it up.
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


def end_by_input(process: subprocess.Popen[bytes], timeout: float) -> None:
    """Close a process's input and wait for its end; kill it after the timeout. Safe to repeat.

    Args:
        process: has a pipe as its input; its other pipes are closed too.
        timeout: seconds to wait.
    """
    if process.stdin is not None:
        with contextlib.suppress(OSError):
            process.stdin.close()
    try:
        process.wait(timeout)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()
    for stream in (process.stdout, process.stderr):
        if stream is not None:
            stream.close()
