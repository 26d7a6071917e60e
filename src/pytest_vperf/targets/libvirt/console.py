"""A machine's console, read while the machine lives; a domU's console is also the wire to our agent, since libvirt
offers no other channel on Xen.

Output is text until the agent announces frames. From then on the kernel prints only panics, which show up as bytes
that are no frame.
"""

from __future__ import annotations

import contextlib
import queue
import socket
import threading
import time
from typing import TYPE_CHECKING, Any

from pytest_vperf.targets.agent.wire import Frame, Wire, WireError
from pytest_vperf.targets.base import CannotConnect
from pytest_vperf.targets.libvirt.connection import failed
from pytest_vperf.targets.process import ready

if TYPE_CHECKING:
    from pytest_vperf.targets.libvirt.connection import Connection, Watch


#: Bytes of output that are kept, from the end.
_KEPT = 64 << 10
_CHUNK = 16 << 10
#: Returned by a non-blocking stream without data (libvirt-stream.h, virStreamRecv).
_NOTHING_YET = -2


class Console:
    """A machine's output: libvirt's event loop receives and timestamps it, a separate thread examines it.

    A thread blocked on a stream would read for the whole connection, and libvirt 9 then holds back about one in ten
    replies to other threads until the next keepalive, seconds later.

    Args:
        connection: to the daemon.
        domain: libvirt's domain, created but still paused, so that nothing is missed.
        marks: texts to look for; the time of each one's first appearance is kept.

    Raises:
        CannotStart: it cannot be opened.

    Attributes:
        first: when the first byte arrived, on time.perf_counter()'s clock.
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
            Console.close(self)  # a subclass is not initialised yet
            raise failed(error, "read its console", domain.name()) from None

    def _event(self, stream: Any, _: int, __: object) -> None:
        """Queue what has arrived; called by libvirt's event loop, which must not be held up."""
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
        """Keep output, and note marks seen for the first time."""
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
        """When a mark was first seen; ``None`` if not yet."""
        with self._lock:
            return self._seen.get(mark)

    def text(self) -> str:
        """The output that is kept, as text."""
        with self._lock:
            return self._kept.decode("utf-8", "replace").replace("\r", "")

    def last_words(self, length: int = 600) -> str:
        """The end of the output, to append to an error message."""
        said = self.text()[-length:].strip()
        return f"\nits console ended with:\n{said}" if said else "; its console is empty"

    def settle(self, timeout: float) -> None:
        """Wait at most ``timeout`` seconds until all output of an ended machine has been read."""
        self._thread.join(timeout)

    def close(self) -> None:
        """Stop reading. Safe to repeat."""
        for step in (self._stream.eventRemoveCallback, self._stream.abort):
            with contextlib.suppress(self._error):  # it has ended with the machine
                step()
        self._came.put(None)
        self._thread.join(2.0)


#: The line that the agent prints before its first frame (source/agent.h, WIRE_LINE).
WIRE_LINE = b"vperf-agent: frames follow\n"
_WIRE_CONSOLE_CHUNK = 4096
#: Returned by a non-blocking stream that takes no data (libvirt-stream.h, virStreamSend), and seconds until the next
#: try. This is rare: a remote daemon's stream always takes data.
_NOT_NOW, _PATIENCE = -2, 0.005
#: Bytes sent ahead. A daemon that cannot pass them on reads nothing else of ours, keepalives included, and eventually
#: drops us as dead; so no more than it can pass on in a moment, even when everything is emulated.
_AHEAD = 32 << 10
#: The kernel reads Ctrl-O on its console as SysRq (Linux, drivers/tty/hvc/hvc_console.c), so it is sent as two other
#: bytes, which source/wire.c turns back into one.
_ESCAPES = {byte: bytes((0x10, byte ^ 0x40)) for byte in (0x0F, 0x10)}

#: Seconds between checks that the connection is still open.
_LOOK = 1.0
#: Seconds to read the output of a dying machine, and of silence after which it is complete.
_LAST_WORDS, _QUIET = 10.0, 4.0
#: How a kernel's panic message begins, and its last lines (kernel/panic.c).
_PANIC = "Kernel panic - not syncing"
_DEAD = (b"end Kernel panic", b"Rebooting in ")


def escaped(data: bytes) -> bytes:
    """Bytes for the agent, with those escaped that a console would not pass on."""
    return b"".join(_ESCAPES.get(byte, bytes((byte,))) for byte in data)


class WireConsole(Console):
    """A console with an agent at the other end.

    Args:
        connection: to the daemon.
        domain: libvirt's domain, created but still paused.
        marks: texts whose first appearance is noted.

    Attributes:
        wire: to the agent, once it has announced frames.
        agent: when it did, on time.perf_counter()'s clock.
    """

    def __init__(self, connection: Connection, domain: Any, marks: tuple[bytes, ...] = ()) -> None:
        ours, self._theirs = socket.socketpair()
        self.wire = Wire(ours, ahead=_AHEAD)
        self.agent: float | None = None
        super().__init__(connection, domain, marks)
        self._sender = threading.Thread(target=self._send, name="console input", daemon=True)
        self._sender.start()

    def _take(self, data: bytes, now: float) -> None:
        if self.agent is not None:
            self._hand_on(data)
            return
        super()._take(data, now)
        with self._lock:
            text = bytes(self._kept)
        # The line may arrive in two pieces.
        place = text.find(WIRE_LINE, max(0, len(text) - len(data) - len(WIRE_LINE)))
        if place < 0:
            return
        rest = text[place + len(WIRE_LINE) :]
        with self._lock:
            del self._kept[place:]
        self.agent = now
        self._hand_on(rest)

    def _hand_on(self, data: bytes) -> None:
        with contextlib.suppress(OSError):  # the reader is gone
            self._theirs.sendall(data)

    def _ended(self) -> None:
        with contextlib.suppress(OSError):
            self._theirs.shutdown(socket.SHUT_WR)

    def _send(self) -> None:
        """Pass data from the wire to the agent."""
        while True:
            try:
                data = escaped(self._theirs.recv(_WIRE_CONSOLE_CHUNK))
                while data:
                    sent = self._stream.send(data)
                    if sent == _NOT_NOW:
                        time.sleep(_PATIENCE)
                        continue
                    if sent < 0:
                        return
                    data = data[sent:]
                    if not data:
                        break
                else:
                    return
            except (OSError, self._error):
                return

    def close(self) -> None:
        """Stop reading and writing. Safe to repeat."""
        for end in (self._theirs, self.wire.socket):
            with contextlib.suppress(OSError):
                end.shutdown(socket.SHUT_RDWR)
        super().close()
        self._sender.join(2.0)
        self._theirs.close()
        self.wire.socket.close()


class ConsoleSpeaker:
    """An agent reached over its machine's console; see `pytest_vperf.targets.agent.wire.Speaker`.

    Args:
        name: the machine's, in messages.
        console: the machine's.
        watch: libvirt's events about it, needed since a stream does not learn that its connection ended.
    """

    def __init__(self, name: str, console: WireConsole, watch: Watch) -> None:
        self.name = name
        self._console = console
        self._watch = watch

    @property
    def wire(self) -> Wire:
        """The wire to the agent."""
        return self._console.wire

    def wait(self, deadline: float) -> list[Frame] | None:
        """Wait for the agent's frames; empty at the deadline, ``None`` if the machine ended.

        Raises:
            CannotConnect: the connection to libvirt ended, or bytes arrived that are no frame, most likely a kernel
                panic.
        """
        wire = self.wire
        readable: list[socket.socket] = []
        while not readable:
            left = max(0.0, deadline - time.perf_counter())
            writers = [wire.socket] if wire.has_unsent else []
            try:
                readable, writable = ready([wire.socket], writers, min(left, _LOOK))
            except (OSError, ValueError):  # closed meanwhile
                return None
            if writable:
                wire.flush()
            if readable:
                break
            if self._watch.lost:
                raise CannotConnect(
                    f"{self.name} is gone: the connection to libvirt ended: {self._watch.lost}",
                    target=self.name,
                )
            if writable or not left:
                return []
        try:
            return wire.receive()
        except WireError as error:
            said = (error.rest + self._rest()).decode("utf-8", "replace").replace("\r", "").strip()
            panic = said.find(_PANIC)
            if panic >= 0:
                why, said = "is gone: its kernel panicked", said[panic : panic + 600]
            else:
                why = "cannot be reached any more: its console no longer carries its agent's frames"
            raise CannotConnect(
                f"{self.name} {why}; it said:\n{said[-800:]}", target=self.name
            ) from error

    def _rest(self) -> bytes:
        """The rest of the output, until the console falls silent or ends: a panicking kernel prints for a while."""
        rest = bytearray()
        deadline = time.perf_counter() + _LAST_WORDS
        try:
            while (left := deadline - time.perf_counter()) > 0:
                readable, _ = ready([self.wire.socket], [], min(left, _QUIET))
                data = self.wire.socket.recv(1 << 16) if readable else b""
                if not data:
                    break
                rest += data
                if any(line in rest for line in _DEAD):
                    break
        except (OSError, ValueError):  # closed meanwhile
            pass
        return bytes(rest)

    def last_words(self) -> str:
        """The end of its output."""
        return self._console.last_words()
