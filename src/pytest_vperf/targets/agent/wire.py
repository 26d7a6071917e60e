"""The host's end of the wire to the agent: frames. The other end is source/wire.c; see source/agent.h."""

from __future__ import annotations

import os
import struct
from collections import deque
from dataclasses import dataclass
from enum import IntEnum
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import socket

_HEADER = struct.Struct("<IHH")
_NUMBER = struct.Struct("<I")
#: A longer frame means that the stream is not one of frames; agent.h has the same number.
MAX_PAYLOAD = 4 << 20


class Type(IntEnum):
    """The kinds of frames; agent.h says what each carries."""

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
    """One message: its type, the process it is about, and its bytes."""

    type: Type
    stream: int
    payload: bytes = b""

    def encode(self) -> bytes:
        """The bytes on the wire."""
        return _HEADER.pack(len(self.payload), self.type, self.stream) + self.payload


class WireError(Exception):
    """What came is not a frame: the machine is not ours or is broken.

    Attributes:
        rest: what came instead.
    """

    def __init__(self, message: str, rest: bytes = b"") -> None:
        super().__init__(message)
        self.rest = rest


class Decoder:
    """Turns bytes, cut anywhere, into frames."""

    def __init__(self) -> None:
        self._buffer = bytearray()

    def feed(self, data: bytes) -> list[Frame]:
        """Take bytes; return the frames that are whole now.

        Raises:
            WireError: the bytes are no frames.
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
    """A connected socket that carries frames. Sending never blocks: what the other end does not take yet is kept.

    Args:
        connection: the socket.
        ahead: bytes that may be sent before the agent has said that it took them; ``None``: as many as the socket
            takes, where its other end is a port that can be full.
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
        """Whether `flush` has something to do when the socket can be written."""
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
        """Send what is queued, as far as the socket takes it. A broken socket is found by `receive`."""
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
        """The frames that have come; ``None`` when the machine's end is closed.

        Raises:
            WireError: the bytes are no frames.
        """
        try:
            data = self.socket.recv(1 << 16)
        except BlockingIOError:
            return []
        except OSError:
            return None
        return self._heard(self._decoder.feed(data)) if data else None

    def _heard(self, frames: list[Frame]) -> list[Frame]:
        """The frames for others, after those for the wire itself."""
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
        what: it was doing.
    """

    number: int
    what: str

    @classmethod
    def of(cls, payload: bytes) -> Failure:
        """Read it.

        Raises:
            WireError: it is too short.
        """
        return cls(number(payload, Type.FAILED), payload[4:].decode("utf-8", "replace"))

    def __str__(self) -> str:
        # The agent may send any number; strerror(3) takes an int.
        why = os.strerror(self.number) if self.number < 1 << 31 else f"error {self.number}"
        return f"{self.what}: {why}"


def number(payload: bytes, of: Type) -> int:
    """The number that a payload begins with.

    Args:
        payload: of a frame.
        of: its type.

    Raises:
        WireError: it is too short.
    """
    if len(payload) < _NUMBER.size:
        raise WireError(f"the agent sent {of.name} with {len(payload)} bytes", payload)
    return int(_NUMBER.unpack_from(payload)[0])


def command_payload(argv: tuple[str, ...], env: dict[str, str], cwd: str) -> bytes:
    """The payload of START and EXEC.

    Raises:
        ValueError: a string has a NUL character, which no process can be given.
    """
    strings = [cwd, str(len(argv)), *argv, *(f"{name}={value}" for name, value in env.items())]
    if any("\0" in string for string in strings):
        raise ValueError("a command, its folder and its variables cannot have NUL characters")
    payload = b"".join(string.encode("utf-8", "surrogateescape") + b"\0" for string in strings)
    if len(payload) > MAX_PAYLOAD:
        raise ValueError(f"the command is too long ({len(payload)} bytes)")
    return payload
