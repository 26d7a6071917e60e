"""The conversation with a command in a container: its input, and its two outputs on one connection."""

from __future__ import annotations

import contextlib
import socket
import threading
import time
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from pytest_vperf.targets.received import Output

_HEADER = 8
_STDERR = 2


class Demultiplexer:
    """Takes the engine's stream apart.

    Each frame is a header of 8 bytes, the first of which says which output it is (1, 2) and the last four
    how long it is, big-endian, and then the payload (Docker Engine API, "Attach to a container").

    Args:
        output: takes what is in the frames.
    """

    def __init__(self, output: Output) -> None:
        self._output = output
        self._header = bytearray()
        self._left = 0

    def feed(self, data: bytes) -> None:
        """Take bytes as they come, in pieces of any size."""
        while data:
            if not self._left:
                wanted = _HEADER - len(self._header)
                self._header += data[:wanted]
                data = data[wanted:]
                if len(self._header) < _HEADER:
                    return
                self._left = int.from_bytes(self._header[4:], "big")
                if not self._left:
                    self._header.clear()
                continue
            # As much of the frame as is there: it says itself how long it is, and that may be 4 GiB.
            payload = data[: self._left]
            data = data[len(payload) :]
            self._left -= len(payload)
            if self._header[0] == _STDERR:
                self._output.take_stderr(payload)
            else:
                self._output.take_stdout(payload)
            if not self._left:
                self._header.clear()


class Conversation:
    """An attached command: made when it was started, ended with `close`.

    Args:
        stream: what ``exec_start(socket=True)`` of the SDK returns.
        output: takes what it prints.
    """

    def __init__(self, stream: Any, output: Output) -> None:
        self._stream = stream
        self._connection = getattr(stream, "_sock", stream)
        self._output = output
        self._frames = Demultiplexer(output)

    def run(self, input: bytes, deadline: float) -> bool:
        """Feed the input and gather the output until the command closes it.

        Args:
            input: what the command reads.
            deadline: on the clock of `time.perf_counter`.

        Returns:
            Whether the output ended before the deadline, and before there was too much of it.

        Raises:
            OSError: the engine broke the connection.
        """
        self._frames.feed(self._read_ahead())
        if input:
            self._connection.settimeout(max(0.001, deadline - time.perf_counter()))
            threading.Thread(target=self._feed, args=(input,), daemon=True).start()
        while True:
            left = deadline - time.perf_counter()
            if left <= 0 or self._output.is_full:
                return False
            self._connection.settimeout(left)
            try:
                data = self._connection.recv(1 << 16)
            except TimeoutError:
                return False
            if not data:
                return True
            self._frames.feed(data)

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
