"""A command over the agent's wire: its output, its status, and its errors."""

from __future__ import annotations

import contextlib
import errno
import select
import socket
import threading
import time
from typing import TYPE_CHECKING, Any, cast

import pytest

from pytest_vperf.targets.agent.target import ENVIRONMENT, AgentTarget
from pytest_vperf.targets.agent.wire import Decoder, Frame, Type, Wire, command_payload
from pytest_vperf.targets.base import CannotConnect, CommandFailed, TargetError, TimedOut

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path


class Machine:
    """A machine whose agent is a function of the test: a frame in, frames out, in its own thread.

    Attributes:
        heard: what the agent was told.
        answer: its answer to each; ``None`` ends the machine.
    """

    name = "pod"

    def __init__(self) -> None:
        ours, self._theirs = socket.socketpair()
        self.wire = Wire(ours)
        self.heard: list[Frame] = []
        self.answer: Callable[[Frame], list[Frame] | None] = lambda _: []
        self._thread = threading.Thread(target=self._listen, daemon=True)
        self._thread.start()

    def _listen(self) -> None:
        decoder = Decoder()
        with contextlib.suppress(OSError):  # a test ends before all was said
            while data := self._theirs.recv(1 << 16):
                for frame in decoder.feed(data):
                    self.heard.append(frame)
                    answers = self.answer(frame)
                    if answers is None:
                        self._theirs.shutdown(socket.SHUT_RDWR)
                        return
                    for each in answers:
                        self._theirs.sendall(each.encode())

    def wait(self, deadline: float) -> list[Frame] | None:
        writers = [self.wire.socket] if self.wire.has_unsent else []
        ready, writable, _ = select.select(
            [self.wire.socket], writers, [], max(0.0, deadline - time.perf_counter())
        )
        if writable:
            self.wire.flush()
        return self.wire.receive() if ready else []

    def last_words(self) -> str:
        return "\nits console ended with:\nOops"

    def close(self) -> None:
        self.wire.socket.close()
        self._thread.join(10)
        self._theirs.close()


@pytest.fixture
def machine() -> Iterator[Machine]:
    made = Machine()
    yield made
    made.close()


@pytest.fixture
def target(machine: Machine) -> AgentTarget:
    return AgentTarget(machine, cast("Any", None), ENVIRONMENT)


def status(stream: int, number: int) -> Frame:
    return Frame(Type.EXIT, stream, number.to_bytes(4, "little"))


def failed(stream: int, number: int, what: str) -> Frame:
    return Frame(Type.FAILED, stream, number.to_bytes(4, "little") + what.encode())


def test_a_commands_output_errors_and_status_are_returned(
    machine: Machine, target: AgentTarget
) -> None:
    def answer(frame: Frame) -> list[Frame]:
        if frame.type is not Type.INPUT or frame.payload:
            return []
        return [
            Frame(Type.OUTPUT, frame.stream, b"o1"),
            Frame(Type.OUTPUT, frame.stream + 1, b"of another's"),
            Frame(Type.ERRORS, frame.stream, b"e"),
            Frame(Type.OUTPUT, frame.stream, b"o2"),
            status(frame.stream, 0),
        ]

    machine.answer = answer
    done = target.run(["cat", "a b"], input=b"in", env={"LANG": "C"}, cwd="/tmp")
    assert (done.argv, done.returncode) == (("cat", "a b"), 0)
    assert (done.stdout, done.stderr) == (b"o1o2", b"e")
    request, data, end = machine.heard
    payload = command_payload(("cat", "a b"), {**ENVIRONMENT, "LANG": "C"}, "/tmp")
    assert request == Frame(Type.EXEC, request.stream, payload)
    assert (data, end) == (
        Frame(Type.INPUT, request.stream, b"in"),
        Frame(Type.INPUT, request.stream),
    )


def test_every_command_has_a_number_of_its_own(machine: Machine, target: AgentTarget) -> None:
    machine.answer = lambda f: [status(f.stream, 0)] if f.type is Type.EXEC else []
    for _ in range(3):
        target.run(["true"])
    streams = [frame.stream for frame in machine.heard if frame.type is Type.EXEC]
    assert len(set(streams)) == 3
    assert 1 not in streams  # the container's own process
    target._stream = 0xFFFE  # as after 65,533 commands
    for _ in range(2):
        target.run(["true"])
    streams = [frame.stream for frame in machine.heard if frame.type is Type.EXEC][3:]
    assert all(2 <= stream <= 0xFFFF for stream in streams)
    assert len(set(streams)) == 2


@pytest.mark.parametrize(
    ("number", "code", "words"),
    [
        (errno.ENOENT, 127, "No such file or directory"),
        (errno.EACCES, 126, "Permission denied"),
        (errno.ENOEXEC, 126, "Exec format error"),
    ],
)
def test_a_program_that_cannot_be_executed_has_a_shells_status(
    machine: Machine, target: AgentTarget, number: int, code: int, words: str
) -> None:
    machine.answer = lambda f: [failed(f.stream, number, "x")] if f.type is Type.EXEC else []
    done = target.run(["x"], check=False)
    assert (done.returncode, done.stderr) == (code, f"x: {words}\n".encode())
    with pytest.raises(CommandFailed, match=f"^x ended with status {code} in pod:\nx: {words}$"):
        target.run(["x"])


def test_a_command_in_an_ended_container_cannot_connect(
    machine: Machine, target: AgentTarget
) -> None:
    machine.answer = lambda f: [failed(f.stream, errno.ESRCH, "setns")]
    with pytest.raises(CannotConnect) as caught:
        target.run(["true"])
    assert str(caught.value) == "the container of pod is gone: its process has ended"


def test_a_machine_that_ends_during_a_command_is_gone(
    machine: Machine, target: AgentTarget
) -> None:
    machine.answer = lambda _: None
    with pytest.raises(CannotConnect) as caught:
        target.run(["sleep", "9"])
    assert str(caught.value) == (
        "pod is gone: it ended while sleep 9 ran\nits console ended with:\nOops"
    )
    assert caught.value.target == "pod"


def test_a_command_that_takes_too_long_is_killed(machine: Machine, target: AgentTarget) -> None:
    def answer(frame: Frame) -> list[Frame]:
        if frame.type is Type.EXEC:
            return [Frame(Type.OUTPUT, frame.stream, b"half")]
        return [status(frame.stream, 137)] if frame.type is Type.KILL else []

    machine.answer = answer
    with pytest.raises(TimedOut) as caught:
        target.run(["sleep", "9"], timeout=0.1)
    assert str(caught.value) == "sleep 9 did not end within 0.1 s in pod; it was killed"
    assert caught.value.stdout == b"half"
    assert machine.heard[-1].type is Type.KILL


def test_a_command_with_a_nul_character_is_refused(machine: Machine, target: AgentTarget) -> None:
    with pytest.raises(TargetError) as caught:
        target.run(["a\0"])
    assert str(caught.value) == (
        "pod: a command, its folder and its variables cannot contain NUL characters"
    )
    assert machine.heard == []


def test_a_file_is_copied_both_ways(machine: Machine, target: AgentTarget, tmp_path: Path) -> None:
    """It is larger than one chunk, and keeps its mode."""
    stored = bytearray()

    def answer(frame: Frame) -> list[Frame]:
        if frame.type is Type.INPUT:
            stored.extend(frame.payload)
            return [] if frame.payload else [status(frame.stream, 0)]
        if frame.type is Type.READ:
            return [Frame(Type.OUTPUT, frame.stream, bytes(stored)), status(frame.stream, 0)]
        return []

    machine.answer = answer
    source, copy = tmp_path / "source", tmp_path / "copy"
    source.write_bytes(bytes(range(256)) * 2000)
    source.chmod(0o4750)
    target.put(source, "/opt/x y")
    target.get("/opt/x y", copy)
    assert copy.read_bytes() == source.read_bytes()
    write, *_, read = [f for f in machine.heard if f.type in (Type.WRITE, Type.READ)]
    assert write.payload == b"/opt/x y\x004750\x00"
    assert read.payload == b"/opt/x y\x00"


def test_a_file_that_cannot_be_written_is_an_error(
    machine: Machine, target: AgentTarget, tmp_path: Path
) -> None:
    source = tmp_path / "source"
    source.write_bytes(b"x")

    def answer(frame: Frame) -> list[Frame]:
        if frame.type is not Type.WRITE:
            return []
        words = Frame(Type.ERRORS, frame.stream, b"/full/x: No space left on device\n")
        return [words, status(frame.stream, 1)]

    machine.answer = answer
    with pytest.raises(TargetError) as caught:
        target.put(source, "/full/x")
    assert str(caught.value) == f"put {source} /full/x in pod: /full/x: No space left on device"
