"""The conversation with a command in a container: its input, and its two outputs on one connection."""

from __future__ import annotations

import contextlib
import socket
import threading
import time
from typing import Any

_HEADER = 8
_STDERR = 2


class Demultiplexer:
    """Takes the engine's stream apart.

    Each frame is a header of 8 bytes, the first of which says which output it is (1, 2) and the last four
    how long it is, big-endian, and then the payload (Docker Engine API, "Attach to a container").
    """

    def __init__(self) -> None:
        self.stdout = bytearray()
        self.stderr = bytearray()
        self._pending = bytearray()

    def feed(self, data: bytes) -> None:
        """Take bytes as they come, in pieces of any size."""
        self._pending += data
        while len(self._pending) >= _HEADER:
            end = _HEADER + int.from_bytes(self._pending[4:_HEADER], "big")
            if len(self._pending) < end:
                return
            output = self.stderr if self._pending[0] == _STDERR else self.stdout
            output += self._pending[_HEADER:end]
            del self._pending[:end]


class Conversation:
    """An attached command: made when it was started, ended with `close`.

    Args:
        stream: what ``exec_start(socket=True)`` of the SDK returns.
    """

    def __init__(self, stream: Any) -> None:
        self._stream = stream
        self._connection = getattr(stream, "_sock", stream)
        self.output = Demultiplexer()

    def run(self, input: bytes, deadline: float) -> bool:
        """Feed the input and gather the output until the command closes it.

        Args:
            input: what the command reads.
            deadline: on the clock of `time.perf_counter`.

        Returns:
            Whether the output ended before the deadline.

        Raises:
            OSError: the engine broke the connection.
        """
        self.output.feed(self._read_ahead())
        if input:
            self._connection.settimeout(max(0.001, deadline - time.perf_counter()))
            threading.Thread(target=self._feed, args=(input,), daemon=True).start()
        while True:
            left = deadline - time.perf_counter()
            if left <= 0:
                return False
            self._connection.settimeout(left)
            try:
                data = self._connection.recv(1 << 16)
            except TimeoutError:
                return False
            if not data:
                return True
            self.output.feed(data)

    def _read_ahead(self) -> bytes:
        """What came in one piece with the head of the answer, and so was taken from the connection already.

        The SDK hands out the bare connection and forgets these bytes: the first output of a quick command.
        """
        reader = getattr(getattr(self._stream, "_response", None), "raw", None)
        reader = getattr(getattr(reader, "_fp", None), "fp", None)
        if reader is None or not hasattr(reader, "peek"):
            return b""
        self._connection.settimeout(0)
        with contextlib.suppress(BlockingIOError):
            return bytes(reader.read1(len(reader.peek())))
        return b""

    def _feed(self, input: bytes) -> None:
        # A command that does not read all of its input has that right.
        with contextlib.suppress(OSError):
            self._connection.sendall(input)
        with contextlib.suppress(OSError):
            self._connection.shutdown(socket.SHUT_WR)

    def close(self) -> None:
        """Give the connection back; safe to repeat."""
        with contextlib.suppress(OSError):
            self._connection.shutdown(socket.SHUT_RDWR)
        response: Any = getattr(self._stream, "_response", None)
        for thing in (response, self._stream):
            with contextlib.suppress(Exception):  # whatever it is, it is closed now
                thing.close()
