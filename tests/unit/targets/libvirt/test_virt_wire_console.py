"""A console that becomes the agent's wire: first text, then frames, to the last byte."""

from __future__ import annotations

import os
import select
import subprocess
import threading
import time
import tty
from contextlib import contextmanager
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pytest_vperf.machine import compiler
from pytest_vperf.targets.agent.build import FLAGS, sources
from pytest_vperf.targets.agent.wire import Frame, Type
from pytest_vperf.targets.base import CannotConnect
from pytest_vperf.targets.libvirt.connection import Watch
from pytest_vperf.targets.libvirt.console import WIRE_LINE, ConsoleSpeaker, WireConsole, escaped

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path
    from types import ModuleType


def unescaped(data: bytes) -> bytes:
    """As the agent unescapes (source/wire.c)."""
    found, flip = bytearray(), False
    for byte in data:
        if flip:
            found.append(byte ^ 0x40)
            flip = False
        elif byte == 0x10:
            flip = True
        else:
            found.append(byte)
    assert not flip
    return bytes(found)


@given(st.binary() | st.lists(st.sampled_from([0x0F, 0x10, 0x4F, 0x50, 0])).map(bytes))
def test_escaped_bytes_come_back_and_none_is_ctrl_o(data: bytes) -> None:
    sent = escaped(data)
    assert unescaped(sent) == data
    assert 0x0F not in sent


class Stream:
    """A fake libvirt stream: data put into it triggers the callback; takes a few bytes at a time and records them."""

    def __init__(self) -> None:
        self._said: list[bytes] = []
        self._call: Callable[..., None] | None = None
        self.heard = bytearray()
        self.news = threading.Condition()
        self._sends = 0

    def eventAddCallback(self, _: int, call: Callable[..., None], __: None) -> None:
        self._call = call

    def eventRemoveCallback(self) -> None:
        self._call = None

    def say(self, *said: bytes) -> None:
        """``b""`` is the stream's end."""
        self._said += said
        while self._said and self._call is not None:
            self._call(self, 1, None)

    def recv(self, _: int) -> bytes | int:
        return self._said.pop(0) if self._said else -2

    def send(self, data: bytes) -> int:
        self._sends += 1
        if self._sends % 50 == 0:
            return -2  # not now
        with self.news:
            self.heard += data[:57]
            self.news.notify_all()
        return len(data[:57])

    def await_heard(self, length: int) -> bytes:
        with self.news:
            assert self.news.wait_for(lambda: len(self.heard) >= length, 10)
            return bytes(self.heard)

    def abort(self) -> None:
        """It has no end of its own."""


@contextmanager
def opened(libvirt: ModuleType, stream: Any, *marks: bytes) -> Iterator[WireConsole]:
    connection: Any = SimpleNamespace(
        libvirt=libvirt, handle=SimpleNamespace(newStream=lambda _: stream)
    )
    domain = SimpleNamespace(name=lambda: "domu", openConsole=lambda *_: None)
    console = WireConsole(connection, domain, marks)
    try:
        yield console
    finally:
        console.close()


@pytest.fixture
def stream() -> Stream:
    return Stream()


@pytest.fixture
def console(libvirt: ModuleType, stream: Stream) -> Iterator[WireConsole]:
    with opened(libvirt, stream, b"init: up") as made:
        yield made


@pytest.fixture
def watch() -> Watch:
    return Watch()


@pytest.fixture
def speaker(console: WireConsole, watch: Watch) -> ConsoleSpeaker:
    return ConsoleSpeaker("domu pv", console, watch)


def frames(speaker: ConsoleSpeaker, count: int) -> list[Frame]:
    found: list[Frame] = []
    deadline = time.perf_counter() + 10
    while len(found) < count and time.perf_counter() < deadline:
        found += speaker.wait(deadline) or []
    return found


def test_a_connection_that_ends_is_noticed_though_its_stream_says_nothing(
    speaker: ConsoleSpeaker, watch: Watch
) -> None:
    threading.Timer(0.1, lambda: watch.tell(lost="an error on its connection")).start()
    with pytest.raises(CannotConnect) as caught:
        speaker.wait(time.perf_counter() + 60)
    assert str(caught.value) == (
        "domu pv is gone: the connection to libvirt ended: an error on its connection"
    )


@pytest.mark.usefixtures("more_files_than_select_knows")
def test_an_agent_is_heard_with_more_files_open_than_select_knows(
    libvirt: ModuleType, stream: Stream, watch: Watch
) -> None:
    with opened(libvirt, stream, b"init: up") as console:
        assert console.wire.socket.fileno() > 1024
        speaker = ConsoleSpeaker("domu pv", console, watch)
        stream.say(WIRE_LINE, READY.encode())
        assert frames(speaker, 1) == [READY]
        stream.say(b"Kernel panic - not syncing: x\r\n---[ end Kernel panic")
        with pytest.raises(CannotConnect, match="its kernel panicked"):
            speaker.wait(time.perf_counter() + 10)


def test_frames_before_the_end_of_the_connection_are_heard(
    stream: Stream, speaker: ConsoleSpeaker, watch: Watch
) -> None:
    stream.say(WIRE_LINE, READY.encode())
    watch.tell(lost="the daemon has gone")
    assert frames(speaker, 1) == [READY]


def test_a_wait_without_frames_ends_at_the_deadline(speaker: ConsoleSpeaker) -> None:
    assert speaker.wait(time.perf_counter() + 0.01) == []


READY = Frame(Type.READY, 0, b"6.1.0")


@pytest.mark.parametrize("cut", [1, 5, 20, 27, 1000])
def test_frames_begin_after_the_agents_line(
    console: WireConsole, speaker: ConsoleSpeaker, stream: Stream, cut: int
) -> None:
    said = b"init: up\r\nStarting...\r\n" + WIRE_LINE + READY.encode() + READY.encode()
    for at in range(0, len(said), cut):
        stream.say(said[at : at + cut])
    assert frames(speaker, 2) == [READY, READY]
    assert console.when(b"init: up") is not None
    assert console.agent is not None
    assert console.text() == "init: up\nStarting...\n"
    assert speaker.last_words() == "\nits console ended with:\ninit: up\nStarting..."


def test_the_agent_is_heard_after_more_text_than_is_kept(
    speaker: ConsoleSpeaker, stream: Stream
) -> None:
    """A kernel with verbose logging prints more."""
    for _ in range(5):
        stream.say(b"[    0.000000] some line of a kernel\n" * 400)
    stream.say(b"another line\n" * 100 + WIRE_LINE + READY.encode() + b"\0" * 3)
    assert frames(speaker, 1) == [READY]


def test_requests_to_the_agent(speaker: ConsoleSpeaker, stream: Stream) -> None:
    """In pieces, as the stream takes them; without the byte that the kernel would interpret."""
    frame = Frame(Type.INPUT, 0x0F10, bytes(range(256)) * 20)
    speaker.wire.send(frame)
    sent = escaped(frame.encode())
    assert stream.await_heard(len(sent)) == sent


def test_unacknowledged_bytes_stay_within_the_window(
    console: WireConsole, speaker: ConsoleSpeaker, stream: Stream
) -> None:
    frame = Frame(Type.INPUT, 2, b"x" * (40 << 10))
    stream.say(WIRE_LINE)
    speaker.wire.send(frame)
    stream.await_heard(32 << 10)
    time.sleep(0.05)
    assert len(stream.heard) == 32 << 10
    assert not speaker.wire.has_unsent  # nothing can be written now, so nothing waits for it
    stream.say(Frame(Type.TAKEN, 0, (20 << 10).to_bytes(4, "little")).encode())
    assert frames(speaker, 0) == []
    deadline = time.perf_counter() + 10
    while speaker.wire.backlog and time.perf_counter() < deadline:
        speaker.wait(time.perf_counter() + 0.1)
    assert stream.await_heard(len(frame.encode())) == frame.encode()


def test_a_wait_ends_at_the_deadline_or_with_the_machine(
    speaker: ConsoleSpeaker, stream: Stream
) -> None:
    began = time.perf_counter()
    assert speaker.wait(began + 0.05) == []
    assert time.perf_counter() - began >= 0.05
    stream.say(b"reboot: Power down\n")
    stream.say(b"")
    assert speaker.wait(began + 10) is None


def test_a_kernel_panic_is_reported(speaker: ConsoleSpeaker, stream: Stream) -> None:
    stream.say(WIRE_LINE + READY.encode())
    assert frames(speaker, 1) == [READY]
    # In two pieces: the first is not the cause.
    stream.say(b"[    3.598884] sysrq: Trigger a crash\r\n")
    stream.say(b"Kernel panic - not syncing: sysrq triggered crash\r\n")
    stream.say(b"")
    with pytest.raises(CannotConnect) as caught:
        speaker.wait(time.perf_counter() + 10)
    assert str(caught.value) == (
        "domu pv is gone: its kernel panicked; it said:\n"
        "Kernel panic - not syncing: sysrq triggered crash"
    )
    assert caught.value.target == "domu pv"


def test_a_closed_console_ends_its_waits(console: WireConsole, speaker: ConsoleSpeaker) -> None:
    console.close()
    console.close()
    assert speaker.wait(time.perf_counter() + 10) is None
    speaker.wire.send(READY)  # it is lost, which the next wait reports


#: The agent's end of the wire, which echoes every frame as another type.
ECHO = b"""
#include "agent.h"
#include <stdio.h>
#include <stdlib.h>
int whole_machine = 1;
void die(const char *what) { perror(what); exit(1); }
static void echo(uint16_t type, uint16_t stream, char *payload, size_t length) {
    if (type == FRAME_INPUT) wire_send(FRAME_OUTPUT, stream, payload, length);
}
int main(int argc, char **argv) {
    (void)argc;
    wire_open(argv[1]);
    while (wire_receive(echo)) {}
    return 0;
}
"""


class Terminal:
    """A terminal as a libvirt stream, with an event loop; the agent's end of the wire is its other side."""

    def __init__(self, descriptor: int, error: type[Exception]) -> None:
        self._descriptor, self._error = descriptor, error
        self._over = threading.Event()
        self._loop: threading.Thread | None = None

    def eventAddCallback(self, _: int, call: Callable[..., None], __: None) -> None:
        def loop() -> None:
            while not self._over.is_set():
                if select.select([self._descriptor], [], [], 0.05)[0]:
                    call(self, 1, None)

        self._loop = threading.Thread(target=loop)
        self._loop.start()

    def eventRemoveCallback(self) -> None:
        self._over.set()
        if self._loop is not None and self._loop is not threading.current_thread():
            self._loop.join()

    def recv(self, length: int) -> bytes:
        try:
            return os.read(self._descriptor, length)
        except OSError as error:
            raise self._error(str(error)) from None

    def send(self, data: bytes) -> int:
        return os.write(self._descriptor, data)

    def abort(self) -> None:
        """It ends with the program."""


@pytest.fixture(scope="module")
def echo(tmp_path_factory: pytest.TempPathFactory) -> Path:
    if not compiler.check().usable:
        pytest.skip(compiler.check().why)
    files = {name: text for name, text in sources().items() if name in ("agent.h", "wire.c")}
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("VPERF_CACHE_DIR", str(tmp_path_factory.mktemp("cache")))
        return compiler.build("echo", "echo", {**files, "echo.c": ECHO}, FLAGS)


def test_the_agents_own_code_answers_through_a_terminal(libvirt: ModuleType, echo: Path) -> None:
    """Both ways through a real terminal: every byte value, more than the window, and several frames."""
    ours, theirs = os.openpty()
    tty.setraw(theirs)  # nothing is echoed before the agent opens it
    program = subprocess.Popen([echo, os.ttyname(theirs)])
    try:
        with opened(libvirt, Terminal(ours, libvirt.libvirtError)) as console:
            speaker = ConsoleSpeaker("domu", console, Watch())
            deadline = time.perf_counter() + 10
            while console.agent is None and time.perf_counter() < deadline:
                time.sleep(0.002)
            os.close(theirs)  # now only the program has it open, so the terminal ends with it
            sent = [Frame(Type.INPUT, n, bytes(range(256)) * 200 + bytes([n])) for n in range(4)]
            for frame in sent:
                speaker.wire.send(frame)
            received = frames(speaker, len(sent))
            assert received == [Frame(Type.OUTPUT, f.stream, f.payload) for f in sent]
            program.kill()
            program.wait()
    finally:
        program.kill()
        program.wait()
        os.close(ours)
