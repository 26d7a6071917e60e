"""The connections to the machines of a fleet: what comes in, who has not been heard of, and how each ends."""

from __future__ import annotations

import contextlib
import json
import os
import selectors
import subprocess
import time
from collections import deque
from dataclasses import dataclass, field
from typing import IO, TYPE_CHECKING, Any

from pytest_vperf import foreign_text
from pytest_vperf.fleet.lines import BEAT, SILENT, Lines, TooLong

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from pytest_vperf.fleet.engines import Engine, FleetMachine
    from pytest_vperf.fleet.plan import Shard

#: Most bytes that are kept of what a connection says of itself, on its standard error.
_SAID = 4096
#: Most lines before a machine says hello: a login shell may greet.
_GREETING = 1000
#: Seconds that one turn may last, so that signs of life go out between two of them, however much comes in.
_TURN = 1.0
#: Seconds to wait for the last words of a connection that has ended.
_LAST_WORDS = 2.0


@dataclass(eq=False)
class Link:
    """A connection to a machine.

    Attributes:
        machine: which.
        process: what the engine started here.
        hello: what the machine said of itself; ``None`` until then.
        waits: whether it has to wait until its machine is free.
        shard: what it runs; ``None`` before it is ordered.
        ended: how its pytest ended, as it says; ``None`` until then.
        heard: when it was heard last, by the monotonic clock.
    """

    machine: FleetMachine
    process: subprocess.Popen[bytes]
    hello: dict[str, Any] | None = None
    waits: bool = False
    shard: Shard | None = None
    ended: dict[str, Any] | None = None
    heard: float = field(default_factory=time.monotonic)
    lines: Lines = field(default_factory=Lines)
    said: bytes = b""
    unsent: deque[memoryview] = field(default_factory=deque)
    is_open: bool = True
    greeted: int = 0

    @property
    def last_words(self) -> str:
        """What it said on its standard error, in one line; empty if nothing."""
        return foreign_text.short(self.said.decode("utf-8", "replace"))


class Links:
    """The connections of a run.

    Args:
        engine: starts what they lead to.
        command: the words of that.
    """

    def __init__(self, engine: Engine, command: list[str]) -> None:
        self._engine, self._command = engine, command
        self._select = selectors.DefaultSelector()
        self._beaten = time.monotonic()
        self._ready: deque[tuple[Link, Callable[[Link], Iterator[tuple[Link, Any]]]]] = deque()
        self._asked = self._beaten
        #: When a connection was begun or a machine said hello last: others come later, where many come at once.
        self.greeted = self._beaten
        self.open: list[Link] = []

    def start(self, machine: FleetMachine) -> Link:
        """Begin a connection.

        Raises:
            OSError: the engine's program cannot be executed.
        """
        link = Link(machine, self._engine.start(machine, self._command))
        for stream, take in (
            (link.process.stdout, self._take_lines),
            (link.process.stderr, self._take_words),
        ):
            os.set_blocking(_file(stream), False)
            self._select.register(_file(stream), selectors.EVENT_READ, (link, take))
        os.set_blocking(_file(link.process.stdin), False)
        self.open.append(link)
        self.greeted = time.monotonic()
        return link

    def send(self, link: Link, data: bytes) -> None:
        """Send a line, as soon as it is taken there; in vain if the connection has ended, which is seen by what comes
        in.
        """
        if link.process.stdin is None or link.process.stdin.closed:
            return
        link.unsent.append(memoryview(data))
        if len(link.unsent) == 1:
            list(self._give_lines(link))
            if link.unsent:
                file = _file(link.process.stdin)
                self._select.register(file, selectors.EVENT_WRITE, (link, self._give_lines))

    def turn(self, wait: float) -> Iterator[tuple[Link, Any]]:
        """What came in within so many seconds: a connection, and an object or list that it sent; or the text why
        it is no more, after which it is closed.
        """
        now = time.monotonic()
        if now - self._beaten >= BEAT:
            self._beaten = now
            for link in self.open:
                if not link.unsent:  # what waits to be sent is a sign of life, too
                    self.send(link, b"\n")
        if not self._ready:
            self._ready.extend(key.data for key, _ in self._select.select(wait))
            self._asked = time.monotonic()
        while self._ready:
            link, take = self._ready.popleft()
            if (
                link.is_open
            ):  # it may have ended with what was just read from another of its streams
                yield from take(link)
            if time.monotonic() - now > wait + _TURN:
                return
        # What has come since they were asked, nobody has read yet: it is no silence.
        for link in [each for each in self.open if self._is_silent(each)]:
            if link.is_open:
                self.close(link)
                yield link, f"no word from it for {SILENT:g} s"

    def _is_silent(self, link: Link) -> bool:
        heard = link.heard if link.hello is not None else max(link.heard, self.greeted)
        return self._asked - heard > SILENT and not link.waits

    def dismiss(self, link: Link) -> None:
        """Let a connection end by itself: its command does so at the end of its input."""
        link.unsent.clear()
        self._unregister(link.process.stdin)
        with contextlib.suppress(OSError):
            assert link.process.stdin is not None
            link.process.stdin.close()

    def close(self, link: Link) -> None:
        """End a connection; a second call does nothing."""
        if not link.is_open:
            return
        link.is_open = False
        self.open.remove(link)
        for stream in (link.process.stdin, link.process.stdout, link.process.stderr):
            self._unregister(stream)
        with contextlib.suppress(OSError):
            self._engine.end(link.process)
        for stream in (link.process.stdin, link.process.stdout, link.process.stderr):
            with contextlib.suppress(OSError):
                assert stream is not None
                stream.close()

    def _unregister(self, stream: IO[bytes] | None) -> None:
        with contextlib.suppress(KeyError, ValueError):  # not registered, or closed
            self._select.unregister(_file(stream))

    def _give_lines(self, link: Link) -> Iterator[tuple[Link, Any]]:
        """Send what is taken of what waits to be sent."""
        if link.process.stdin is None or link.process.stdin.closed:
            return  # dismissed after it was seen to be ready
        file = _file(link.process.stdin)
        try:
            while link.unsent:
                link.unsent[0] = link.unsent[0][os.write(file, link.unsent[0]) :]
                if not link.unsent[0]:
                    link.unsent.popleft()
        except BlockingIOError:
            return
        except OSError:
            link.unsent.clear()
        self._unregister(link.process.stdin)
        yield from ()

    def _take_lines(self, link: Link) -> Iterator[tuple[Link, Any]]:
        try:
            data = os.read(_file(link.process.stdout), 1 << 18)
        except BlockingIOError:
            return
        if not data:
            yield from self._ended(link)
            return
        link.heard = time.monotonic()
        try:
            for each in link.lines.feed(data):
                if (said := self._read(link, each)) is not None:
                    yield link, said
                if not link.is_open:
                    return
        except TooLong:
            self.close(link)
            yield link, "it sent a line without an end"
        except ValueError:
            self.close(link)
            yield link, "it sent what is no line of a shard"

    def _read(self, link: Link, text: bytes) -> Any:
        """What a line says; ``None`` where that is nothing.

        Raises:
            ValueError: it is no line of a shard.
        """
        try:
            said = json.loads(text.decode())  # of bytes, it would look for the encoding
        except (ValueError, RecursionError):
            said = None
        if link.hello is None:
            if isinstance(said, dict) and said.get("vperf") == "hello":
                link.hello, link.waits = said, False
                self.greeted = link.heard
                return said
            link.greeted += 1
            if link.greeted > _GREETING:
                raise ValueError
            return None
        if not isinstance(said, (dict, list)):
            raise ValueError
        if isinstance(said, dict) and said.get("vperf") == "beat":
            return None
        return said

    def _take_words(self, link: Link) -> Iterator[tuple[Link, Any]]:
        try:
            data = os.read(_file(link.process.stderr), 1 << 16)
        except BlockingIOError:
            return
        if not data:
            self._select.unregister(_file(link.process.stderr))
        link.said = (link.said + data)[-_SAID:]
        if link.hello is None:
            link.heard = time.monotonic()
            link.waits = self._engine.waits(link.said.decode("utf-8", "replace"))
        yield from ()

    def _ended(self, link: Link) -> Iterator[tuple[Link, Any]]:
        """Its output has ended: what it says last says why."""
        deadline = time.monotonic() + _LAST_WORDS
        with contextlib.suppress(OSError):
            while time.monotonic() < deadline:
                try:
                    data = os.read(_file(link.process.stderr), 1 << 16)
                except BlockingIOError:
                    time.sleep(0.01)
                    continue
                if not data:
                    break
                link.said = (link.said + data)[-_SAID:]
        with contextlib.suppress(subprocess.TimeoutExpired):
            link.process.wait(_LAST_WORDS)  # its status says more than that of one that is killed
        self.close(link)
        yield link, link.last_words or "its connection ended"


def _file(stream: IO[bytes] | None) -> int:
    assert stream is not None
    return stream.fileno()
