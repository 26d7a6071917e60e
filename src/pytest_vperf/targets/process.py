"""Processes on the host, run to their end within limits of time and output, and data received from targets.

`ready` waits for sockets and files, however many the process has open.

A command that prints, or a target that sends, more than its limit is stopped at once, before it can fill this
machine's memory or disk, and not only when its time is up.
"""

from __future__ import annotations

import contextlib
import errno
import io
import os
import secrets
import selectors
import signal
import stat
import subprocess
import time
from dataclasses import dataclass
from typing import IO, TYPE_CHECKING, BinaryIO, Protocol, TypeVar

from pytest_vperf.targets.base import MOST_OUTPUT, TargetError, TooMuchOutput

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence
    from pathlib import Path

    import psutil


#: Greatest timeout of poll(2) in milliseconds: an int.
_LONGEST = (1 << 31) - 1
#: What can be waited for: a descriptor, or what has one.
Waitable = TypeVar("Waitable", bound="int | HasDescriptor")


class HasDescriptor(Protocol):
    """A socket, a pipe, a file."""

    def fileno(self) -> int:
        """Its descriptor."""
        ...


def ready(
    readers: Sequence[Waitable], writers: Sequence[Waitable], seconds: float
) -> tuple[list[Waitable], list[Waitable]]:
    """Which of some files have something to read, or can be written to; an end and an error count as readable.

    Args:
        readers: to be read.
        writers: to be written to.
        seconds: to wait at most; capped at 24 days.

    Raises:
        ValueError: one of them is closed.
    """
    wanted = dict.fromkeys(readers, selectors.EVENT_READ)
    for each in writers:
        wanted[each] = wanted.get(each, 0) | selectors.EVENT_WRITE
    # poll(2): select(2) knows no descriptor above 1023, and epoll(7) no regular file.
    with selectors.PollSelector() as selector:
        for each, events in wanted.items():
            selector.register(each, events)
        found = {
            key.fileobj: events
            for key, events in selector.select(min(max(0.0, seconds), _LONGEST / 1000))
        }
    return (
        [each for each in readers if found.get(each, 0) & selectors.EVENT_READ],
        [each for each in writers if found.get(each, 0) & selectors.EVENT_WRITE],
    )


#: Permission bits that a received file may keep: only we may write to it, and no set-user-ID bit.
_MODE = 0o755


class Output:
    """A command's output, up to a limit.

    Args:
        most: limit in bytes of both outputs together; the rest is dropped.
        stdout: where standard output goes instead of into memory.

    Attributes:
        is_full: whether the limit was exceeded.
    """

    def __init__(self, most: int, stdout: BinaryIO | None = None) -> None:
        # A BytesIO returns all of it without a copy.
        self._stdout = stdout or io.BytesIO()
        self._stderr = io.BytesIO()
        self._room = most
        self.is_full = False

    def take_stdout(self, data: bytes) -> None:
        """Store standard output, as far as the limit allows."""
        self._take(self._stdout, data)

    def take_stderr(self, data: bytes) -> None:
        """Store standard error, likewise."""
        self._take(self._stderr, data)

    def _take(self, stream: BinaryIO, data: bytes) -> None:
        self.is_full = self.is_full or len(data) > self._room
        data = data[: self._room]
        self._room -= len(data)
        stream.write(data)

    @property
    def stdout(self) -> bytes:
        """The stored standard output; empty if it went elsewhere."""
        return self._stdout.getvalue() if isinstance(self._stdout, io.BytesIO) else b""

    @property
    def stderr(self) -> bytes:
        """The stored standard error."""
        return self._stderr.getvalue()

    def too_much(self, argv: Sequence[str], most: int, target: str) -> TooMuchOutput:
        """The error for a command that printed more and was ended."""
        return TooMuchOutput(
            f"{' '.join(argv)} printed more than {size(most)} in {target}, and was ended: let it write to a file"
            " and get() that, or give run() a larger max_output",
            target=target,
            stdout=self.stdout,
            stderr=self.stderr,
        )


def too_large(source: str, most: int, target: str) -> TooMuchOutput:
    """The error for a file that exceeds its limit."""
    return TooMuchOutput(
        f"{source} in {target} has more than {size(most)}: give get() a larger limit", target=target
    )


def size(count: int) -> str:
    """A number of bytes in words: ``8 MiB``, ``100 bytes``."""
    for unit, shift in (("GiB", 30), ("MiB", 20), ("KiB", 10)):
        if count and not count % (1 << shift):
            return f"{count >> shift} {unit}"
    return f"{count} bytes"


@dataclass
class Draft:
    """A file that is being received.

    Attributes:
        file: to write its content to.
        mode: its final mode, before masking.
    """

    file: BinaryIO
    mode: int = 0o644


@contextlib.contextmanager
def received(destination: Path, target: str) -> Iterator[Draft]:
    """Receive a file from a target: it appears under its name only once it is complete.

    An existing file or link of that name is replaced; the link is not followed.

    Args:
        destination: its path.
        target: the sender's name, for messages.

    Raises:
        TargetError: it cannot be written; or the name is taken by something other than a file.
    """
    draft = destination.with_name(f".{secrets.token_hex(8)}")
    flags = os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
    try:
        with contextlib.suppress(FileNotFoundError):
            there = destination.lstat().st_mode
            if not (stat.S_ISREG(there) or stat.S_ISLNK(there)):
                raise TargetError(
                    f"{destination} cannot be written: it is not a regular file", target=target
                )
        descriptor = os.open(draft, flags, 0o600)
        try:
            with os.fdopen(descriptor, "w+b") as file:
                kept = Draft(file)
                yield kept
                file.flush()
                os.fchmod(file.fileno(), kept.mode & _MODE)
            draft.replace(destination)
        except BaseException:
            with contextlib.suppress(OSError):
                draft.unlink()
            raise
    except OSError as error:
        raise TargetError(
            f"{destination} cannot be written: {error.strerror}", target=target
        ) from error


_CHUNK = 1 << 16
#: Most bytes left in the pipes of an ended process: more comes from a process that escaped and still prints.
_IN_PIPES = 1 << 20


@dataclass(frozen=True)
class Finished:
    """A process that ended.

    Attributes:
        returncode: its exit status; ``128 + N`` if signal N ended it; 127 or 126 if it could not be executed, as in a
            shell.
        stdout: what it printed.
        stderr: likewise.
        duration: wall time in seconds, from before its creation until it had ended and its output was read.
        cpu_time: seconds of CPU time, user and system, of it and of the children it waited for.
    """

    returncode: int
    stdout: bytes
    stderr: bytes
    duration: float
    cpu_time: float


class Stopped(Exception):
    """A limit was exceeded; the process and its whole session were killed.

    Attributes:
        output: the output until then.
        cpu_time: as in `Finished`.
    """

    def __init__(self, output: Output, cpu_time: float) -> None:
        super().__init__(type(self).__doc__)
        self.output = output
        self.cpu_time = cpu_time


class OutOfTime(Stopped):
    """It exceeded its time limit."""


class OutOfRoom(Stopped):
    """It exceeded its output limit."""


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
        input: its standard input.
        cwd: its working folder.
        timeout: seconds until it, and all it started, is killed.
        max_output: limit of its output in bytes.
        stdout: where standard output goes instead of into memory.

    Raises:
        OutOfTime: it exceeded its time limit. A surviving child that holds the pipes counts as not ended.
        OutOfRoom: it printed more.
        ValueError: ``argv`` is empty.
        OSError: the host cannot create another process.
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
        # Reaped only now: until then its process ID cannot be reused.
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


def run_detached(
    argv: Sequence[str], *, env: Mapping[str, str], log: Path, timeout: float = 60.0
) -> Finished:
    """Run a command that leaves processes behind, which keep its output open; only its own end is waited for.

    Args:
        argv: the command; no shell is involved.
        env: its whole environment.
        log: the file for its output, and for that of what it leaves; overwritten.
        timeout: seconds until it, and all it started, is killed.

    Returns:
        how it ended; its output of both kinds, up to 64 KiB, is in ``stderr``.

    Raises:
        OutOfTime: it exceeded its time limit.
        OSError: the host cannot create another process, or the file cannot be written.
    """
    with log.open("wb") as stream:
        begin = time.perf_counter()
        try:
            process = subprocess.Popen(
                list(argv),
                stdin=subprocess.DEVNULL,
                stdout=stream,
                stderr=subprocess.STDOUT,
                env=dict(env),
                start_new_session=True,
            )
        except OSError as error:
            status, words = _refusal(error, argv[0], None)
            return Finished(status, b"", words.encode(), time.perf_counter() - begin, 0.0)
    ended = False
    descriptor = os.pidfd_open(process.pid)
    try:
        ended = bool(ready([descriptor], [], timeout)[0])
        duration = time.perf_counter() - begin
    finally:
        os.close(descriptor)
        if not ended:
            end_session(process.pid)
        _, status, used = os.wait4(process.pid, 0)
        process.returncode = code = os.waitstatus_to_exitcode(status)
    output = Output(_CHUNK)
    with log.open("rb") as written:
        output.take_stderr(written.read(_CHUNK))
    cpu_time = used.ru_utime + used.ru_stime
    if not ended:
        raise OutOfTime(output, cpu_time)
    return Finished(code if code >= 0 else 128 - code, b"", output.stderr, duration, cpu_time)


def _refusal(error: OSError, command: str, cwd: str | None) -> tuple[int, str]:
    """The status and message of a shell for a command that could not be executed."""
    if cwd is not None and error.filename == cwd:
        return 127, f"{cwd}: {error.strerror}\n"
    if error.errno == errno.ENOENT:
        return 127, f"{command}: {error.strerror}\n"
    if error.errno in (errno.EACCES, errno.EPERM, errno.ENOEXEC, errno.E2BIG, errno.ENOTDIR):
        return 126, f"{command}: {error.strerror}\n"
    raise error


def _pump(process: subprocess.Popen[bytes], input: bytes, output: Output, deadline: float) -> bool:
    """Pump input and output until the process has ended and its pipes are closed; false if a limit was exceeded."""
    take = {"stdout": output.take_stdout, "stderr": output.take_stderr}
    left = memoryview(input)
    with selectors.DefaultSelector() as selector:
        for name, stream in (("stdout", process.stdout), ("stderr", process.stderr)):
            selector.register(_present(stream), selectors.EVENT_READ, name)
        if process.stdin is not None:
            os.set_blocking(process.stdin.fileno(), False)
            selector.register(process.stdin, selectors.EVENT_WRITE, "stdin")
        # A file descriptor of the process itself, so that its end need not be polled for.
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
    except BrokenPipeError:  # a process need not read its input
        return left[:0]


def _drain(process: subprocess.Popen[bytes], output: Output) -> None:
    """Read what is left in the pipes, without waiting for their end."""
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

    The leader must not have been reaped yet, or its ID may belong to another process.
    """
    import psutil

    dying: set[psutil.Process] = set()
    for _ in range(10):  # a process may fork between search and signal
        family = {leader}
        with contextlib.suppress(psutil.Error):
            family.update(child.pid for child in psutil.Process(leader).children(recursive=True))
        family.update(pid for pid in psutil.pids() if _session(pid) == leader)
        killed = _kill(family)
        dying.update(process for process in killed if process.pid != leader)
        if not killed:
            break
    psutil.wait_procs(dying, timeout=5)  # signals take a moment to take effect


def _session(pid: int) -> int:
    try:
        return os.getsid(pid)
    except OSError:
        return -1


def _kill(pids: Iterable[int]) -> list[psutil.Process]:
    """Kill these processes; return those that still existed."""
    import psutil

    alive = []
    for pid in pids:
        with contextlib.suppress(ProcessLookupError, PermissionError, psutil.Error):
            process = psutil.Process(pid)
            if process.status() not in (psutil.STATUS_ZOMBIE, psutil.STATUS_DEAD):
                os.kill(pid, signal.SIGKILL)
                alive.append(process)
    return alive
