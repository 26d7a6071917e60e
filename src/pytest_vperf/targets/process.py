"""A process of the host, run to its end within a time limit, with everything that it started."""

from __future__ import annotations

import contextlib
import errno
import os
import selectors
import signal
import subprocess
import time
from dataclasses import dataclass
from typing import IO, TYPE_CHECKING, BinaryIO

from pytest_vperf.targets.base import MOST_OUTPUT
from pytest_vperf.targets.received import Output

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    import psutil

_CHUNK = 1 << 16
#: Bytes that pipes may still hold of a process that is gone: more comes from one that got away, and goes on.
_IN_PIPES = 1 << 20


@dataclass(frozen=True)
class Finished:
    """A process that ended.

    Attributes:
        returncode: its exit status; ``128 + N`` where signal N ended it; 127 or 126 where it could
            not be executed, as in a shell.
        stdout: what it printed.
        stderr: likewise.
        duration: wall time in seconds, from before it was made until it had ended and its output
            was read.
        cpu_time: seconds of CPU time, user and system, of it and of the children it waited for.
    """

    returncode: int
    stdout: bytes
    stderr: bytes
    duration: float
    cpu_time: float


class Stopped(Exception):
    """A limit was passed; the process and everything of its session was killed.

    Attributes:
        output: what had been printed until then.
        cpu_time: as in `Finished`.
    """

    def __init__(self, output: Output, cpu_time: float) -> None:
        super().__init__(type(self).__doc__)
        self.output = output
        self.cpu_time = cpu_time


class OutOfTime(Stopped):
    """The time limit passed."""


class OutOfRoom(Stopped):
    """It printed more than it may."""


def run_process(
    argv: Sequence[str],
    *,
    env: Mapping[str, str],
    input: bytes = b"",
    cwd: str | None = None,
    timeout: float = 60.0,
    max_output: int = MOST_OUTPUT,
    stdout: BinaryIO | None = None,
) -> Finished:
    """Run a command in a session of its own until it has ended and nothing holds its output.

    Args:
        argv: the command; no shell is involved.
        env: its whole environment.
        input: what it reads on standard input.
        cwd: its working folder.
        timeout: seconds until it, and all it started, is killed.
        max_output: bytes that it may print.
        stdout: where standard output goes instead of into memory.

    Raises:
        OutOfTime: the limit passed. A child that lives on and holds the pipes counts as not ended.
        OutOfRoom: it printed more.
        ValueError: ``argv`` is empty.
        OSError: the host cannot make another process.
    """
    if not argv:
        raise ValueError("a command has at least one word")
    begin = time.perf_counter()
    try:
        process = subprocess.Popen(
            list(argv),
            stdin=subprocess.PIPE if input else subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            env=dict(env),
            cwd=cwd,
            start_new_session=True,
        )
    except OSError as error:
        status, words = _refusal(error, argv[0], cwd)
        return Finished(status, b"", words.encode(), time.perf_counter() - begin, 0.0)
    output = Output(max_output, stdout)
    ended = False
    try:
        ended = _pump(process, input, output, begin + timeout)
    finally:
        if not ended:
            end_session(process.pid)
        # Reaped only now: until then the process's number cannot be given to another one.
        _, status, used = os.wait4(process.pid, 0)
        process.returncode = os.waitstatus_to_exitcode(status)
        full = output.is_full
        if not ended:
            _drain(process, output)
        for stream in (process.stdin, process.stdout, process.stderr):
            if stream is not None:
                with contextlib.suppress(OSError):
                    stream.close()
    duration = time.perf_counter() - begin
    cpu_time = used.ru_utime + used.ru_stime
    if not ended:
        raise (OutOfRoom if full else OutOfTime)(output, cpu_time)
    code = process.returncode
    status = code if code >= 0 else 128 - code
    return Finished(status, output.stdout, output.stderr, duration, cpu_time)


def _refusal(error: OSError, command: str, cwd: str | None) -> tuple[int, str]:
    """The status and words of a shell for a command that could not be executed."""
    if cwd is not None and error.filename == cwd:
        return 127, f"{cwd}: {error.strerror}\n"
    if error.errno == errno.ENOENT:
        return 127, f"{command}: {error.strerror}\n"
    if error.errno in (errno.EACCES, errno.EPERM, errno.ENOEXEC, errno.E2BIG, errno.ENOTDIR):
        return 126, f"{command}: {error.strerror}\n"
    raise error


def _pump(process: subprocess.Popen[bytes], input: bytes, output: Output, deadline: float) -> bool:
    """Move bytes until the process has ended and its pipes are closed; false at the deadline, and of too many."""
    take = {"stdout": output.take_stdout, "stderr": output.take_stderr}
    left = memoryview(input)
    with selectors.DefaultSelector() as selector:
        for name, stream in (("stdout", process.stdout), ("stderr", process.stderr)):
            selector.register(_present(stream), selectors.EVENT_READ, name)
        if process.stdin is not None:
            os.set_blocking(process.stdin.fileno(), False)
            selector.register(process.stdin, selectors.EVENT_WRITE, "stdin")
        # A file descriptor of the process itself: its end is pushed, not polled for.
        ended = os.pidfd_open(process.pid)
        selector.register(ended, selectors.EVENT_READ, "end")
        try:
            while selector.get_map():
                ready = selector.select(max(0.0, deadline - time.perf_counter()))
                if time.perf_counter() >= deadline:
                    return False
                for key, _ in ready:
                    if key.data == "stdin":
                        left = _feed(key.fd, left)
                        done = not left
                    elif key.data == "end":
                        done = True
                    else:
                        chunk = os.read(key.fd, _CHUNK)
                        take[key.data](chunk)
                        if output.is_full:
                            return False
                        done = not chunk
                    if done:
                        selector.unregister(key.fileobj)
                        if key.data == "stdin":
                            _present(process.stdin).close()
        finally:
            os.close(ended)
    return True


def _present(stream: IO[bytes] | None) -> IO[bytes]:
    assert stream is not None
    return stream


def _feed(descriptor: int, left: memoryview) -> memoryview:
    try:
        return left[os.write(descriptor, left[:_CHUNK]) :]
    except BlockingIOError:
        return left
    except BrokenPipeError:  # it does not want to read, which is its right
        return left[:0]


def _drain(process: subprocess.Popen[bytes], output: Output) -> None:
    """What is still in the pipes, without waiting for their end."""
    for take, stream in (
        (output.take_stdout, process.stdout),
        (output.take_stderr, process.stderr),
    ):
        descriptor = _present(stream).fileno()
        os.set_blocking(descriptor, False)
        with contextlib.suppress(OSError):
            for _ in range(_IN_PIPES // _CHUNK):
                if not (chunk := os.read(descriptor, _CHUNK)):
                    break
                take(chunk)


def end_session(leader: int) -> None:
    """Kill a session's leader, every process of its session, and its descendants in other sessions.

    The leader must not have been reaped yet, or its number may mean another process.
    """
    import psutil

    dying: set[psutil.Process] = set()
    for _ in range(10):  # a process may fork between the look and the signal
        family = {leader}
        with contextlib.suppress(psutil.Error):
            family.update(child.pid for child in psutil.Process(leader).children(recursive=True))
        family.update(pid for pid in psutil.pids() if _session(pid) == leader)
        killed = _kill(family)
        dying.update(process for process in killed if process.pid != leader)
        if not killed:
            break
    psutil.wait_procs(dying, timeout=5)  # a signal is sent at once, and takes effect soon


def _session(pid: int) -> int:
    try:
        return os.getsid(pid)
    except OSError:
        return -1


def _kill(pids: Iterable[int]) -> list[psutil.Process]:
    """Kill what lives; what still did."""
    import psutil

    alive = []
    for pid in pids:
        with contextlib.suppress(ProcessLookupError, PermissionError, psutil.Error):
            process = psutil.Process(pid)
            if process.status() not in (psutil.STATUS_ZOMBIE, psutil.STATUS_DEAD):
                os.kill(pid, signal.SIGKILL)
                alive.append(process)
    return alive
