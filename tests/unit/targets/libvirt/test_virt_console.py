"""A console that is read as it is printed: marks, their times, and the last lines."""

from __future__ import annotations

import time
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import pytest

from pytest_vperf.targets.base import CannotStart
from pytest_vperf.targets.libvirt.console import Console

if TYPE_CHECKING:
    from collections.abc import Callable
    from types import ModuleType


class Stream:
    """A fake libvirt stream; data put into it triggers the callback, as libvirt's event loop does."""

    def __init__(self) -> None:
        self._said: list[bytes | Exception] = []
        self._call: Callable[..., None] | None = None
        self.aborted = False
        self.refuses: Exception | None = None

    def eventAddCallback(self, events: int, call: Callable[..., None], opaque: None) -> None:
        assert events == 1 | 4 | 8  # readable, error, hangup
        if self.refuses is not None:
            raise self.refuses
        self._call = call
        self._tell()

    def eventRemoveCallback(self) -> None:
        self._call = None

    def say(self, *said: bytes | Exception) -> None:
        """``b""`` is the stream's end, an exception its failure."""
        self._said += said
        self._tell()

    def _tell(self) -> None:
        while self._said and self._call is not None:
            self._call(self, 1, None)

    def nudge(self) -> None:
        """Trigger an event without data."""
        assert self._call is not None
        self._call(self, 1, None)

    def recv(self, _: int) -> bytes | int:
        if not self._said:
            return -2
        said = self._said.pop(0)
        if isinstance(said, Exception):
            raise said
        return said

    def abort(self) -> None:
        self.aborted = True


class Machine:
    """A machine with a console, and its connection."""

    def __init__(self, libvirt: ModuleType) -> None:
        self.stream = Stream()
        self.connection: Any = SimpleNamespace(
            libvirt=libvirt, handle=SimpleNamespace(newStream=self._new)
        )
        self.domain = SimpleNamespace(name=lambda: "guest tcg", openConsole=self._open)
        self.refuses: Exception | None = None

    def _new(self, flags: int) -> Stream:
        assert flags == 1  # a blocking stream would read everything on the connection
        return self.stream

    def _open(self, device: str | None, stream: Stream, flags: int) -> None:
        assert (device, stream, flags) == (None, self.stream, 1)
        if self.refuses is not None:
            raise self.refuses

    def say(self, console: Console, *said: bytes) -> None:
        """Print something, end the stream, and wait until all was read."""
        self.stream.say(*said, b"")
        console.settle(10)


@pytest.fixture
def machine(libvirt: ModuleType) -> Machine:
    return Machine(libvirt)


def test_marks_are_dated_when_they_come(machine: Machine) -> None:
    console = Console(machine.connection, machine.domain, (b"kernel up", b"init up", b"never"))
    assert console.last_words() == "; its console is empty"
    began = time.perf_counter()
    machine.say(console, b"\x1bc kernel", b" up\r\n", b"init up\r\nkernel up\r\n")
    kernel, init = console.when(b"kernel up"), console.when(b"init up")
    assert console.first is not None
    assert kernel is not None
    assert init is not None
    assert began <= console.first <= kernel <= init <= time.perf_counter()
    assert console.when(b"never") is None
    assert console.text() == "\x1bc kernel up\ninit up\nkernel up\n"


def test_only_the_end_of_the_console_is_kept(machine: Machine) -> None:
    console = Console(machine.connection, machine.domain, (b"first",))
    machine.say(console, b"first\n", *[b"x" * 16384] * 5, b"last")
    assert console.when(b"first") is not None
    assert len(console.text()) == 64 << 10
    assert console.last_words(8) == "\nits console ended with:\nxxxxlast"


def test_an_empty_console_is_described_as_empty(machine: Machine) -> None:
    console = Console(machine.connection, machine.domain)
    machine.say(console, b"\r\n")
    assert console.last_words() == "; its console is empty"


@pytest.mark.parametrize("fails", [False, True])
def test_the_end_of_the_stream_ends_the_console(
    machine: Machine, libvirt: ModuleType, fails: bool
) -> None:
    """The stream ends, or fails with the machine."""
    console = Console(machine.connection, machine.domain)
    machine.stream.say(b"Kernel panic\n", libvirt.libvirtError("gone") if fails else b"")
    console.settle(10)
    assert console.text() == "Kernel panic\n"
    console.close()
    console.close()
    assert machine.stream.aborted


def test_an_event_without_data_does_not_end_the_console(machine: Machine) -> None:
    console = Console(machine.connection, machine.domain)
    machine.stream.nudge()
    machine.say(console, b"still here")
    assert console.text() == "still here"


def test_a_console_can_be_closed_while_its_machine_runs(machine: Machine) -> None:
    console = Console(machine.connection, machine.domain)
    machine.stream.say(b"alive")
    console.close()
    machine.stream.say(b" and well")
    assert console.text() == "alive"


def test_a_console_that_cannot_be_read_is_an_error(machine: Machine, libvirt: ModuleType) -> None:
    machine.stream.refuses = libvirt.libvirtError("internal error: stream is not open")
    with pytest.raises(CannotStart) as caught:
        Console(machine.connection, machine.domain)
    assert str(caught.value) == "guest tcg: libvirt could not read its console: stream is not open"
    assert machine.stream.aborted


def test_a_console_that_cannot_be_opened_is_an_error(machine: Machine, libvirt: ModuleType) -> None:
    machine.refuses = libvirt.libvirtError(
        "internal error: character device (null) is not using a PTY"
    )
    with pytest.raises(CannotStart) as caught:
        Console(machine.connection, machine.domain)
    assert str(caught.value) == (
        "guest tcg: libvirt could not open its console: character device (null) is not using a PTY"
    )
