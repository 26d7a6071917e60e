"""The host's end of the wire to the agent: frames, and one command from request to exit status.

The agent's end is source/wire.c; the protocol is described in source/agent.h.
"""

from __future__ import annotations

import errno
import os
import struct
import time
from collections import deque
from dataclasses import dataclass
from enum import IntEnum
from typing import TYPE_CHECKING, BinaryIO, Protocol

from pytest_vperf.targets.base import CannotConnect, Completed, TargetError, TimedOut
from pytest_vperf.targets.process import Output

if TYPE_CHECKING:
    import socket
    from collections.abc import Iterator


_HEADER = struct.Struct("<IHH")
_NUMBER = struct.Struct("<I")
#: A longer frame means that the stream is corrupt; agent.h has the same number.
MAX_PAYLOAD = 4 << 20


class Type(IntEnum):
    """The types of frames; agent.h describes their payloads."""

    START = 1
    EXEC = 2
    INPUT = 3
    KILL = 4
    WRITE = 5
    READ = 6
    IMAGE = 7
    READY = 16
    RUNNING = 17
    OUTPUT = 18
    ERRORS = 19
    EXIT = 20
    FAILED = 21
    TAKEN = 22
    DISK = 23
    RELEASED = 24


@dataclass(frozen=True)
class Frame:
    """One message: its type, the number of the process that it concerns, and its payload."""

    type: Type
    stream: int
    payload: bytes = b""

    def encode(self) -> bytes:
        """The bytes on the wire."""
        return _HEADER.pack(len(self.payload), self.type, self.stream) + self.payload


class WireError(Exception):
    """The received bytes are not a frame: the machine is not ours, or is broken.

    Attributes:
        rest: the bytes.
    """

    def __init__(self, message: str, rest: bytes = b"") -> None:
        super().__init__(message)
        self.rest = rest


class Decoder:
    """Turns bytes, in pieces of any size, into frames."""

    def __init__(self) -> None:
        self._buffer = bytearray()

    def feed(self, data: bytes) -> list[Frame]:
        """Process received bytes; return the frames that are now complete.

        Raises:
            WireError: the bytes are not frames.
        """
        self._buffer += data
        frames = []
        while len(self._buffer) >= _HEADER.size:
            length, kind, stream = _HEADER.unpack_from(self._buffer)
            if length > MAX_PAYLOAD or kind not in Type._value2member_map_:
                raise WireError(
                    f"the agent sent no frame (type {kind}, length {length})", bytes(self._buffer)
                )
            end = _HEADER.size + length
            if len(self._buffer) < end:
                break
            frames.append(Frame(Type(kind), stream, bytes(self._buffer[_HEADER.size : end])))
            del self._buffer[:end]
        return frames


class Wire:
    """A connected socket that carries frames. Sending never blocks: what the other end cannot take yet is queued.

    Args:
        connection: the socket.
        ahead: bytes that may be sent before the agent acknowledges them; ``None`` for as many as the socket takes, if
            the transport has flow control.
    """

    def __init__(self, connection: socket.socket, *, ahead: int | None = None) -> None:
        connection.setblocking(False)
        self.socket = connection
        self._decoder = Decoder()
        self._unsent: deque[bytes] = deque()
        self._ahead = ahead
        self._sent = self._taken = 0

    def send(self, frame: Frame) -> None:
        """Queue a frame and send as much as the socket takes."""
        self._unsent.append(frame.encode())
        self.flush()

    @property
    def has_unsent(self) -> bool:
        """Whether `flush` has something to send once the socket is writable."""
        return bool(self._unsent) and self._room > 0

    @property
    def _room(self) -> int:
        """Bytes that may be sent now."""
        if self._ahead is None:
            return MAX_PAYLOAD
        return self._ahead - (self._sent - self._taken) % (1 << 32)

    @property
    def backlog(self) -> int:
        """Bytes queued."""
        return sum(map(len, self._unsent))

    def flush(self) -> None:
        """Send as much of the queue as the socket takes. `receive` reports a broken socket."""
        while self._unsent and (room := self._room) > 0:
            try:
                sent = self.socket.send(self._unsent[0][:room])
            except BlockingIOError:
                return
            except OSError:
                self._unsent.clear()
                return
            self._sent += sent
            if sent < len(self._unsent[0]):
                self._unsent[0] = self._unsent[0][sent:]
            else:
                self._unsent.popleft()

    def receive(self) -> list[Frame] | None:
        """The received frames; ``None`` when the machine's end is closed.

        Raises:
            WireError: the bytes are not frames.
        """
        try:
            data = self.socket.recv(1 << 16)
        except BlockingIOError:
            return []
        except OSError:
            return None
        return self._heard(self._decoder.feed(data)) if data else None

    def _heard(self, frames: list[Frame]) -> list[Frame]:
        """Process acknowledgements and return the other frames."""
        for frame in frames:
            if frame.type is Type.TAKEN:
                self._taken = number(frame.payload, frame.type)
        if self._ahead is not None:
            self.flush()
        return [frame for frame in frames if frame.type is not Type.TAKEN]


@dataclass(frozen=True)
class Failure:
    """The payload of FAILED: what the agent could not do, and why.

    Attributes:
        number: errno.
        what: the operation that failed.
    """

    number: int
    what: str

    @classmethod
    def of(cls, payload: bytes) -> Failure:
        """Parse a payload.

        Raises:
            WireError: it is too short.
        """
        return cls(number(payload, Type.FAILED), payload[4:].decode("utf-8", "replace"))

    def __str__(self) -> str:
        # The agent may send any number; strerror(3) takes an int.
        why = os.strerror(self.number) if self.number < 1 << 31 else f"error {self.number}"
        return f"{self.what}: {why}"


def number(payload: bytes, of: Type) -> int:
    """The number at the start of a payload.

    Args:
        payload: a frame's.
        of: the frame's type.

    Raises:
        WireError: it is too short.
    """
    if len(payload) < _NUMBER.size:
        raise WireError(f"the agent sent {of.name} with {len(payload)} bytes", payload)
    return int(_NUMBER.unpack_from(payload)[0])


def command_payload(argv: tuple[str, ...], env: dict[str, str], cwd: str) -> bytes:
    """The payload of START and EXEC.

    Raises:
        ValueError: a string has a NUL character, which cannot be passed to a process; or the command is too long.
    """
    strings = [cwd, str(len(argv)), *argv, *(f"{name}={value}" for name, value in env.items())]
    if any("\0" in string for string in strings):
        raise ValueError("a command, its folder and its variables cannot contain NUL characters")
    payload = b"".join(string.encode("utf-8", "surrogateescape") + b"\0" for string in strings)
    if len(payload) > MAX_PAYLOAD:
        raise ValueError(f"the command is too long ({len(payload)} bytes)")
    return payload


#: Bytes of input to queue beyond what has been sent.
_AHEAD = 1 << 18
#: Seconds for a killed command to be reported dead.
_GRACE = 10.0


class Speaker(Protocol):
    """A machine with the agent."""

    @property
    def name(self) -> str:
        """Its name in messages."""
        ...

    @property
    def wire(self) -> Wire:
        """The wire to its agent."""
        ...

    def wait(self, deadline: float) -> list[Frame] | None:
        """Wait for frames from the agent, at most until the deadline; ``None`` if the machine ended."""
        ...

    def last_words(self) -> str:
        """The end of its output, to end an error message with."""
        ...


class Conversation:
    """The exchange of frames about one process.

    Args:
        machine: a running machine.
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
        """Send the request and the input, collect the output, and wait for the end.

        Raises:
            TimedOut: ``timeout`` seconds passed; the process and its session were killed.
            TooMuchOutput: it printed too much; likewise.
            TargetError: a frame from the agent is invalid.
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
            # The statuses of a shell for a command that does not exist, or cannot be executed.
            self._status = 127 if failure.number == errno.ENOENT else 126

    def _kill(self) -> None:
        self._machine.wire.send(Frame(Type.KILL, self._stream))
        limit = time.perf_counter() + _GRACE
        while self._status is None and time.perf_counter() < limit:
            self._take(limit)
