"""A machine's console: read as long as it lives, each line dated when it came."""

from __future__ import annotations

import contextlib
import threading
import time
from typing import TYPE_CHECKING, Any

from pytest_vperf.targets.virt.failures import failed

if TYPE_CHECKING:
    from pytest_vperf.targets.virt.connection import Connection

#: Bytes of the console that are kept: its last words.
_KEPT = 64 << 10
_CHUNK = 16 << 10


class Console:
    """What a machine prints. A thread reads, because libvirt's stream is one of a daemon that may be far.

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
            self._stream = connection.handle.newStream(0)
            domain.openConsole(None, self._stream, libvirt.VIR_DOMAIN_CONSOLE_FORCE)
        except self._error as error:
            raise failed(error, "open its console", domain.name()) from None
        self.first: float | None = None
        self._seen: dict[bytes, float] = {}
        self._marks = marks
        self._kept = bytearray()
        self._lock = threading.Lock()
        self._thread = threading.Thread(target=self._read, name="console", daemon=True)
        self._thread.start()

    def _read(self) -> None:
        while True:
            try:
                data = self._stream.recv(_CHUNK)
            except self._error:
                break  # the machine or the daemon is gone
            if not data or data == -2:
                break
            self._take(data, time.perf_counter())
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
        with contextlib.suppress(self._error):  # it has ended with the machine
            self._stream.abort()
        self._thread.join(2.0)
