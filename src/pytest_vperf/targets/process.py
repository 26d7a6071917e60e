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
from typing import IO, TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    import psutil

_CHUNK = 1 << 16


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


class OutOfTime(Exception):
    """The time limit passed; the process and everything of its session was killed.

    Attributes:
        stdout: what had been printed until then.
        stderr: likewise.
        cpu_time: as in `Finished`.
    """

    def __init__(self, stdout: bytes, stderr: bytes, cpu_time: float) -> None:
        super().__init__("the time limit passed")
        self.stdout = stdout
        self.stderr = stderr
        self.cpu_time = cpu_time


def run_process(
    argv: Sequence[str],
    *,
    env: Mapping[str, str],
    input: bytes = b"",
    cwd: str | None = None,
    timeout: float = 60.0,
) -> Finished:
    """Run a command in a session of its own until it has ended and nothing holds its output.

    Args:
        argv: the command; no shell is involved.
        env: its whole environment.
        input: what it reads on standard input.
        cwd: its working folder.
        timeout: seconds until it, and all it started, is killed.

    Raises:
        OutOfTime: the limit passed. A child that lives on and holds the pipes counts as not ended.
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
    output = {"stdout": bytearray(), "stderr": bytearray()}
    ended = False
    try:
        ended = _pump(process, input, output, begin + timeout)
    finally:
        if not ended:
            end_session(process.pid)
        # Reaped only now: until then the process's number cannot be given to another one.
        _, status, used = os.wait4(process.pid, 0)
        process.returncode = os.waitstatus_to_exitcode(status)
        if not ended:
            _drain(process, output)
        for stream in (process.stdin, process.stdout, process.stderr):
            if stream is not None:
                with contextlib.suppress(OSError):
                    stream.close()
    duration = time.perf_counter() - begin
    cpu_time = used.ru_utime + used.ru_stime
    stdout, stderr = bytes(output["stdout"]), bytes(output["stderr"])
    if not ended:
        raise OutOfTime(stdout, stderr, cpu_time)
    code = process.returncode
    return Finished(code if code >= 0 else 128 - code, stdout, stderr, duration, cpu_time)


def _refusal(error: OSError, command: str, cwd: str | None) -> tuple[int, str]:
    """The status and words of a shell for a command that could not be executed."""
    if cwd is not None and error.filename == cwd:
        return 127, f"{cwd}: {error.strerror}\n"
    if error.errno == errno.ENOENT:
        return 127, f"{command}: {error.strerror}\n"
    if error.errno in (errno.EACCES, errno.EPERM, errno.ENOEXEC, errno.E2BIG, errno.ENOTDIR):
        return 126, f"{command}: {error.strerror}\n"
    raise error


def _pump(
    process: subprocess.Popen[bytes], input: bytes, output: dict[str, bytearray], deadline: float
) -> bool:
    """Move bytes until the process has ended and its pipes are closed; false at the deadline."""
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
                if not ready and time.perf_counter() >= deadline:
                    return False
                for key, _ in ready:
                    if key.data == "stdin":
                        left = _feed(key.fd, left)
                        done = not left
                    elif key.data == "end":
                        done = True
                    else:
                        chunk = os.read(key.fd, _CHUNK)
                        output[key.data] += chunk
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


def _drain(process: subprocess.Popen[bytes], output: dict[str, bytearray]) -> None:
    """What is still in the pipes, without waiting for their end."""
    for name, stream in (("stdout", process.stdout), ("stderr", process.stderr)):
        descriptor = _present(stream).fileno()
        os.set_blocking(descriptor, False)
        with contextlib.suppress(OSError):
            while chunk := os.read(descriptor, _CHUNK):
                output[name] += chunk


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
