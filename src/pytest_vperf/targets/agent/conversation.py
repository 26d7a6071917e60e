"""One command in a pod, from the request frame to the frame that says how it ended."""

from __future__ import annotations

import errno
import time
from typing import TYPE_CHECKING, BinaryIO, Protocol

from pytest_vperf.targets.agent.wire import Failure, Frame, Type, WireError, number
from pytest_vperf.targets.base import CannotConnect, Completed, TargetError, TimedOut
from pytest_vperf.targets.received import Output

if TYPE_CHECKING:
    from collections.abc import Iterator

    from pytest_vperf.targets.agent.wire import Wire

#: Bytes of input queued ahead of what QEMU has taken.
_AHEAD = 1 << 18
#: How long a killed command may take to be reported dead, in seconds.
_GRACE = 10.0


class Speaker(Protocol):
    """A machine with the agent."""

    @property
    def name(self) -> str:
        """In messages."""
        ...

    @property
    def wire(self) -> Wire:
        """To the agent."""
        ...

    def wait(self, deadline: float) -> list[Frame] | None:
        """Wait until something comes or the deadline passes: the agent's frames; ``None``: the machine ended."""
        ...

    def last_words(self) -> str:
        """What it said last, for the end of an error message."""
        ...


class Conversation:
    """What is said on the wire about one process.

    Args:
        machine: runs, and its agent takes orders.
        stream: the process's number on the wire.
        argv: the command, for the result and messages.
        max_output: bytes that it may print.
        stdout: where standard output goes instead of into memory.
    """

    def __init__(
        self,
        machine: Speaker,
        stream: int,
        argv: tuple[str, ...],
        max_output: int,
        stdout: BinaryIO | None = None,
    ) -> None:
        self._machine = machine
        self._stream = stream
        self._argv = argv
        self._most = max_output
        self._output = Output(max_output, stdout)
        self._status: int | None = None

    def hold(self, request: Frame, chunks: Iterator[bytes], timeout: float) -> Completed:
        """Send the request and the input, gather the output, and wait for the end.

        Raises:
            TimedOut: ``timeout`` seconds passed; the process and its session were killed.
            TooMuchOutput: it printed too much; likewise.
            TargetError: what the agent says of it makes no sense.
            CannotConnect: the machine is gone.
        """
        began = time.perf_counter()
        deadline = began + timeout
        wire = self._machine.wire
        wire.send(request)
        more = True
        while self._status is None:
            while more and wire.backlog < _AHEAD and time.perf_counter() < deadline:
                chunk = next(chunks, b"")
                more = bool(chunk)
                # An empty frame is the end of the input.
                for start in range(0, len(chunk) or 1, _AHEAD):
                    wire.send(Frame(Type.INPUT, self._stream, chunk[start : start + _AHEAD]))
            self._take(deadline)
            if self._output.is_full:
                self._kill()
                raise self._output.too_much(self._argv, self._most, self._machine.name)
            if self._status is None and time.perf_counter() >= deadline:
                self._kill()
                raise TimedOut(
                    f"{' '.join(self._argv)} did not end within {timeout:g} s in {self._machine.name}; "
                    "it was killed",
                    target=self._machine.name,
                    stdout=self._output.stdout,
                    stderr=self._output.stderr,
                )
        duration = time.perf_counter() - began
        return Completed(
            self._argv, self._status, self._output.stdout, self._output.stderr, duration
        )

    def _take(self, deadline: float) -> None:
        frames = self._machine.wait(deadline)
        if frames is None:
            raise CannotConnect(
                f"{self._machine.name} is gone: it ended while {' '.join(self._argv)} ran"
                f"{self._machine.last_words()}",
                target=self._machine.name,
            )
        for frame in frames:
            if frame.stream != self._stream or self._status is not None:
                continue  # the container's own process, one that a time limit ended, or a second end
            try:
                self._hear(frame)
            except WireError as error:
                name = self._machine.name
                raise TargetError(f"{name}: {error}", target=name) from error

    def _hear(self, frame: Frame) -> None:
        if frame.type is Type.OUTPUT:
            self._output.take_stdout(frame.payload)
        elif frame.type is Type.ERRORS:
            self._output.take_stderr(frame.payload)
        elif frame.type is Type.EXIT:
            self._status = number(frame.payload, frame.type)
        elif frame.type is Type.FAILED:
            failure = Failure.of(frame.payload)
            if failure.number == errno.ESRCH:
                raise CannotConnect(
                    f"the container of {self._machine.name} is gone: its process has ended",
                    target=self._machine.name,
                )
            self._output.take_stderr(f"{failure}\n".encode())
            # As a shell reports a command that is not there, or that cannot be executed.
            self._status = 127 if failure.number == errno.ENOENT else 126

    def _kill(self) -> None:
        self._machine.wire.send(Frame(Type.KILL, self._stream))
        limit = time.perf_counter() + _GRACE
        while self._status is None and time.perf_counter() < limit:
            self._take(limit)
