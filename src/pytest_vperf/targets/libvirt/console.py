"""A machine's console: read as long as it lives, each line dated when it came."""

from __future__ import annotations

import contextlib
import queue
import threading
import time
from typing import TYPE_CHECKING, Any

from pytest_vperf.targets.virt.failures import failed

if TYPE_CHECKING:
    from pytest_vperf.targets.virt.connection import Connection

#: Bytes of the console that are kept: its last words.
_KEPT = 64 << 10
_CHUNK = 16 << 10
#: What a stream that does not block answers where it has nothing (libvirt-stream.h, virStreamRecv).
_NOTHING_YET = -2


class Console:
    """What a machine prints: libvirt's event loop takes and dates it, a thread of its own looks at it.

    A thread that waits in libvirt for a stream would be given the whole connection to read, and libvirt 9 then loses
    one in some ten answers to other threads until the next sign of life, seconds later.

    Args:
        connection: to the daemon.
        domain: libvirt's domain, made but not let go: nothing is missed.
        marks: of lines that are waited for; each is dated when it is first seen.

    Raises:
        CannotStart: it cannot be opened.

    Attributes:
        first: when the first byte came, on time.perf_counter()'s clock.
    """

    def __init__(self, connection: Connection, domain: Any, marks: tuple[bytes, ...] = ()) -> None:
        libvirt = connection.libvirt
        self._error: type[Exception] = libvirt.libvirtError
        try:
            self._stream = connection.handle.newStream(libvirt.VIR_STREAM_NONBLOCK)
            domain.openConsole(None, self._stream, libvirt.VIR_DOMAIN_CONSOLE_FORCE)
        except self._error as error:
            raise failed(error, "open its console", domain.name()) from None
        self._came: queue.SimpleQueue[tuple[bytes, float] | None] = queue.SimpleQueue()
        self.first: float | None = None
        self._seen: dict[bytes, float] = {}
        self._marks = marks
        self._kept = bytearray()
        self._lock = threading.Lock()
        self._thread = threading.Thread(target=self._read, name="console", daemon=True)
        self._thread.start()
        events = (
            libvirt.VIR_STREAM_EVENT_READABLE
            | libvirt.VIR_STREAM_EVENT_ERROR
            | libvirt.VIR_STREAM_EVENT_HANGUP
        )
        try:
            self._stream.eventAddCallback(events, self._event, None)
        except self._error as error:
            Console.close(self)  # one that can do more is not made yet
            raise failed(error, "read its console", domain.name()) from None

    def _event(self, stream: Any, _: int, __: object) -> None:
        """Take what there is; called by libvirt's event loop, which must not be kept."""
        try:
            data = stream.recv(_CHUNK)
        except self._error:
            data = b""  # the machine or the daemon is gone
        if data == _NOTHING_YET:
            return
        if data:
            self._came.put((data, time.perf_counter()))
            return
        with contextlib.suppress(self._error):
            stream.eventRemoveCallback()
        self._came.put(None)

    def _read(self) -> None:
        while (piece := self._came.get()) is not None:
            self._take(*piece)
        self._ended()

    def _take(self, data: bytes, now: float) -> None:
        """Keep what has come."""
        with self._lock:
            if self.first is None:
                self.first = now
            self._kept += data
            for mark in self._marks:
                if mark not in self._seen and mark in self._kept:
                    self._seen[mark] = now
            del self._kept[:-_KEPT]

    def _ended(self) -> None:
        """Nothing more will come."""

    def when(self, mark: bytes) -> float | None:
        """When a mark was seen; ``None``: it has not been."""
        with self._lock:
            return self._seen.get(mark)

    def text(self) -> str:
        """What was printed last."""
        with self._lock:
            return self._kept.decode("utf-8", "replace").replace("\r", "")

    def last_words(self, length: int = 600) -> str:
        """The end of what was printed, for the end of an error message."""
        said = self.text()[-length:].strip()
        return f"\nits console ended with:\n{said}" if said else "; its console is empty"

    def settle(self, timeout: float) -> None:
        """Wait until all was read of a machine that has ended."""
        self._thread.join(timeout)

    def close(self) -> None:
        """Stop reading. Safe to repeat."""
        for step in (self._stream.eventRemoveCallback, self._stream.abort):
            with contextlib.suppress(self._error):  # it has ended with the machine
                step()
        self._came.put(None)
        self._thread.join(2.0)
