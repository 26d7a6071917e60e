"""One command in a pod, from the request frame to the frame that says how it ended."""

from __future__ import annotations

import errno
import os
import time
from typing import TYPE_CHECKING, Protocol

from pytest_vperf.targets.agent.wire import Frame, Type
from pytest_vperf.targets.base import CannotConnect, Completed, TimedOut

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
    """

    def __init__(self, machine: Speaker, stream: int, argv: tuple[str, ...]) -> None:
        self._machine = machine
        self._stream = stream
        self._argv = argv
        self._stdout = bytearray()
        self._stderr = bytearray()
        self._status: int | None = None

    def hold(self, request: Frame, chunks: Iterator[bytes], timeout: float) -> Completed:
        """Send the request and the input, gather the output, and wait for the end.

        Raises:
            TimedOut: ``timeout`` seconds passed; the process and its session were killed.
            CannotConnect: the machine is gone.
        """
        began = time.perf_counter()
        wire = self._machine.wire
        wire.send(request)
        more = True
        while self._status is None:
            while more and wire.backlog < _AHEAD:
                chunk = next(chunks, b"")
                more = bool(chunk)
                # An empty frame is the end of the input.
                for start in range(0, len(chunk) or 1, _AHEAD):
                    wire.send(Frame(Type.INPUT, self._stream, chunk[start : start + _AHEAD]))
            self._take(began + timeout)
            if self._status is None and time.perf_counter() >= began + timeout:
                self._kill()
                raise TimedOut(
                    f"{' '.join(self._argv)} did not end within {timeout:g} s in {self._machine.name}; "
                    "it was killed",
                    target=self._machine.name,
                    stdout=bytes(self._stdout),
                    stderr=bytes(self._stderr),
                )
        duration = time.perf_counter() - began
        return Completed(
            self._argv, self._status, bytes(self._stdout), bytes(self._stderr), duration
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
            if frame.stream != self._stream:
                continue  # the container's own process, or one that a time limit ended
            if frame.type is Type.OUTPUT:
                self._stdout += frame.payload
            elif frame.type is Type.ERRORS:
                self._stderr += frame.payload
            elif frame.type is Type.EXIT:
                self._status = int.from_bytes(frame.payload[:4], "little")
            elif frame.type is Type.FAILED:
                number = int.from_bytes(frame.payload[:4], "little")
                what = frame.payload[4:].decode("utf-8", "replace")
                if number == errno.ESRCH:
                    raise CannotConnect(
                        f"the container of {self._machine.name} is gone: its process has ended",
                        target=self._machine.name,
                    )
                self._stderr += f"{what}: {os.strerror(number)}\n".encode()
                # As a shell reports a command that is not there, or that cannot be executed.
                self._status = 127 if number == errno.ENOENT else 126

    def _kill(self) -> None:
        self._machine.wire.send(Frame(Type.KILL, self._stream))
        limit = time.perf_counter() + _GRACE
        while self._status is None and time.perf_counter() < limit:
            self._take(limit)
