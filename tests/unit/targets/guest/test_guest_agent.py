"""The meaning of qemu-guest-agent's answers and refusals."""

from __future__ import annotations

import base64
import itertools
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import pytest

from pytest_vperf.targets.base import CannotConnect, TargetError, TimedOut
from pytest_vperf.targets.guest import guest as module
from pytest_vperf.targets.guest.guest import CHUNK, MOST_PRINTED, Ended, NotExecuted

if TYPE_CHECKING:
    from tests.unit.targets.guest.conftest import Guest

LAST = "\nits console ended with:\nOops"


def b64(data: bytes) -> str:
    return base64.b64encode(data).decode()


def test_the_numbers_of_these_tests_are_those_of_the_library(numbers: dict[str, int]) -> None:
    real = pytest.importorskip("libvirt", reason="libvirt-python is not installed")
    assert {name: getattr(real, name) for name in numbers} == numbers


def test_a_command_is_sent_as_guest_exec(machine: Guest) -> None:
    machine.answers["guest-exec"] = lambda **_: {"pid": 77}
    agent = machine.agent()
    assert agent.start(["echo", "a b", ""], {"LANG": "C", "X": "="}, b"\0\xff") == 77
    assert agent.start(["true"], {}, b"") == 77
    assert machine.orders == [
        (
            "guest-exec",
            {
                "path": "echo",
                "arg": ["a b", ""],
                "env": ["LANG=C", "X=="],
                "capture-output": True,
                "input-data": "AP8=",
            },
        ),
        ("guest-exec", {"path": "true", "arg": [], "env": [], "capture-output": True}),
    ]


@pytest.mark.parametrize(("asked", "given"), [(30, 30), (5.4, 5), (0.01, 1)])
def test_the_time_limit_is_whole_seconds_and_never_none(
    machine: Guest, asked: float, given: int
) -> None:
    """0 and less mean other things to libvirt (virDomainQemuAgentCommand)."""
    machine.agent().ask("guest-ping", timeout=asked)
    assert machine.timeouts == [given]


@pytest.mark.parametrize(
    ("answer", "ended"),
    [
        ({"exited": False}, None),
        ({"exited": True, "exitcode": 0}, Ended(0, b"", b"")),
        (
            {"exited": True, "exitcode": 3, "out-data": b64(b"\xff\n"), "err-data": b64(b"e")},
            Ended(3, b"\xff\n", b"e"),
        ),
        ({"exited": True, "signal": 9}, Ended(137, b"", b"")),
        ({"exited": True, "signal": 15, "out-data": b64(b"half")}, Ended(143, b"half", b"")),
    ],
)
def test_how_a_command_ended(machine: Guest, answer: dict[str, Any], ended: Ended | None) -> None:
    machine.answers["guest-exec-status"] = lambda pid: answer
    assert machine.agent().ended(77) == ended
    assert machine.given("guest-exec-status") == [{"pid": 77}]


@pytest.mark.parametrize("stream", ["out-truncated", "err-truncated"])
def test_truncated_output_is_an_error(machine: Guest, stream: str) -> None:
    machine.answers["guest-exec-status"] = lambda pid: {"exited": True, "exitcode": 0, stream: True}
    with pytest.raises(TargetError) as caught:
        machine.agent().ended(77)
    assert str(caught.value) == (
        "guest tcg: a command printed more than its agent keeps: have it write to a file, and get() that"
    )


@pytest.mark.parametrize(
    ("said", "why"),
    [
        (
            "unable to execute QEMU agent command 'guest-exec': Guest command failed: "
            'Failed to execute child process "/none" (No such file or directory)',
            "No such file or directory",
        ),
        (
            "unable to execute QEMU agent command 'guest-exec': Guest command failed: "
            "Failed to execute child process “/etc/passwd” (Permission denied)",
            "Permission denied",
        ),
        (
            "Guest command failed: Failed to execute child process “x (1)” (Exec format error)",
            "Exec format error",
        ),
    ],
)
def test_a_program_that_cannot_be_executed_is_told_apart(
    machine: Guest, said: str, why: str
) -> None:
    """GLib's message, with either kind of quotation marks."""
    machine.refuse("guest-exec", said)
    with pytest.raises(NotExecuted) as caught:
        machine.agent().start(["/none"], {}, b"")
    assert str(caught.value) == why


def test_another_refusal_is_not_taken_for_a_missing_program(machine: Guest) -> None:
    machine.refuse(
        "guest-exec", "internal error: unable to execute QEMU agent command 'guest-exec': disabled"
    )
    with pytest.raises(TargetError) as caught:
        machine.agent().start(["true"], {}, b"")
    assert type(caught.value) is TargetError
    assert str(caught.value) == (
        "guest tcg: its agent refuses guest-exec: "
        "unable to execute QEMU agent command 'guest-exec': disabled"
    )
    assert caught.value.target == "guest tcg"


@pytest.mark.parametrize(
    ("code", "said", "ended", "kind", "text"),
    [
        (
            "VIR_ERR_NO_CONNECT",
            "no connection",
            False,
            CannotConnect,
            f"guest tcg is gone: it crashed{LAST}",
        ),
        (
            "VIR_ERR_OPERATION_INVALID",
            "domain is not running",
            True,
            CannotConnect,
            f"guest tcg is gone: it crashed{LAST}",
        ),
        (
            "VIR_ERR_AGENT_UNRESPONSIVE",
            "Guest agent disappeared while executing command",
            True,
            CannotConnect,
            f"guest tcg is gone: it crashed{LAST}",
        ),
        (
            "VIR_ERR_AGENT_UNRESPONSIVE",
            "Guest agent disappeared while executing command",
            False,
            CannotConnect,
            f"guest tcg: its agent is gone: Guest agent disappeared while executing command{LAST}",
        ),
        (
            "VIR_ERR_NO_DOMAIN",
            "Domain not found",
            False,
            CannotConnect,
            f"guest tcg is gone: Domain not found{LAST}",
        ),
        (
            "VIR_ERR_INTERNAL_ERROR",
            "guest agent command timeout",
            False,
            TimedOut,
            f"guest tcg: its agent did not answer guest-ping within 5 s{LAST}",
        ),
        (
            "VIR_ERR_INTERNAL_ERROR",
            "internal error: x",
            False,
            TargetError,
            "guest tcg: its agent refuses guest-ping: x",
        ),
    ],
)
def test_failures_of_the_agent_become_errors_of_the_target(
    machine: Guest, code: str, said: str, ended: bool, kind: type[TargetError], text: str
) -> None:
    machine.ended = ended
    machine.refuse("guest-ping", said, code)
    with pytest.raises(TargetError) as caught:
        machine.agent().ask("guest-ping", timeout=5)
    assert type(caught.value) is kind
    assert str(caught.value) == text


def test_an_agent_that_hangs_with_its_port_open_is_late_and_not_gone(machine: Guest) -> None:
    machine.connected = True
    said = "Guest agent not available for now"
    machine.refuse("guest-ping", said, "VIR_ERR_AGENT_UNRESPONSIVE")
    with pytest.raises(TimedOut) as caught:
        machine.agent().ask("guest-ping")
    assert str(caught.value) == f"guest tcg: its agent does not answer guest-ping: {said}{LAST}"


def test_the_timeout_code_of_newer_libvirt_is_a_timeout(machine: Guest) -> None:
    """libvirt has a separate error code for it since 11.2."""
    machine.libvirt.VIR_ERR_AGENT_COMMAND_TIMEOUT = 86  # type: ignore[attr-defined]
    machine.refuse("guest-ping", "Guest agent is not responding", "VIR_ERR_AGENT_UNRESPONSIVE")
    with pytest.raises(TimedOut):
        machine.agent().ask("guest-ping")


@pytest.fixture
def clock(machine: Guest, monkeypatch: pytest.MonkeyPatch) -> SimpleNamespace:
    """A clock that advances only in sleeps."""
    made = SimpleNamespace(now=100.0)

    def pause(seconds: float) -> None:
        machine.paused.append(seconds)
        made.now += seconds

    machine.pausing = pause
    monkeypatch.setattr(module, "time", SimpleNamespace(perf_counter=lambda: made.now))
    return made


def test_a_long_command_is_polled_less_often(machine: Guest, clock: SimpleNamespace) -> None:
    """Its end is seen late by at most a twentieth of its duration, or by half a second."""
    machine.answers["guest-exec-status"] = lambda pid: {"exited": clock.now >= 160, "exitcode": 0}
    assert machine.agent().wait(77, 1000.0) == Ended(0, b"", b"")
    assert machine.paused[0] == 0.01
    assert machine.paused == sorted(machine.paused)
    assert machine.paused[-1] == 0.5
    for number, pause in enumerate(machine.paused):
        passed = sum(machine.paused[:number])
        assert pause <= max(0.01, 0.05 * passed) + 1e-9
    assert len(machine.orders) < 250  # and not 6000


def test_the_last_poll_is_at_the_deadline(machine: Guest, clock: SimpleNamespace) -> None:
    machine.answers["guest-exec-status"] = lambda pid: {"exited": False}
    assert machine.agent().wait(77, 100.035) is None
    assert clock.now == pytest.approx(100.035)
    machine.answers["guest-exec-status"] = lambda pid: {"exited": True, "exitcode": 1}
    assert machine.agent().wait(77, 0.0) == Ended(1, b"", b"")


class File:
    """A file in the guest; the agent reads or writes as much at once as it likes."""

    def __init__(self, machine: Guest, content: bytes = b"", most: int = 1 << 30) -> None:
        self.content, self._most, self._at = bytearray(content), most, 0
        self.open = False
        self.modes: list[str] = []
        machine.answers |= {
            "guest-file-open": self._open,
            "guest-file-write": self._write,
            "guest-file-read": self._read,
            "guest-file-close": self._close,
        }

    def _open(self, path: str, mode: str) -> int:
        assert path == "/tmp/file"
        self.open = True
        self.modes.append(mode)
        return 1000

    def _write(self, handle: int, buf_b64: str) -> dict[str, Any]:
        assert handle == 1000
        taken = base64.b64decode(buf_b64)[: self._most]
        self.content += taken
        return {"count": len(taken), "eof": False}

    def _read(self, handle: int, count: int) -> dict[str, Any]:
        assert handle == 1000
        data = bytes(self.content[self._at : self._at + min(count, self._most)])
        self._at += len(data)
        # The end is seen by who reads less than he asked for (fread(3), feof(3)).
        return {"count": len(data), "buf-b64": b64(data), "eof": len(data) < count}

    def _close(self, handle: int) -> dict[str, Any]:
        assert handle == 1000
        self.open = False
        return {}


@pytest.mark.parametrize("most", [1 << 30, 7, 1])
def test_a_file_is_written_whole_where_the_agent_takes_parts(machine: Guest, most: int) -> None:
    file = File(machine, most=most)
    pieces = [b"one\0", b"\xff" * 20, b"", b"end"]
    machine.agent().write("/tmp/file", iter(pieces))
    assert file.content == b"".join(pieces)
    assert not file.open
    assert file.modes == ["wb"]


@pytest.mark.parametrize("length", [0, 1, CHUNK - 1, CHUNK, CHUNK + 1, 3 * CHUNK])
def test_a_file_is_read_to_its_end(machine: Guest, length: int) -> None:
    content = bytes(itertools.islice(itertools.cycle(range(251)), length))
    file = File(machine, content)
    assert b"".join(machine.agent().read("/tmp/file")) == content
    assert not file.open
    assert file.modes == ["rb"]
    assert {order["count"] for order in machine.given("guest-file-read")} == {CHUNK}


def test_a_file_ends_at_an_empty_read_without_eof(machine: Guest) -> None:
    """As with files of /proc, which return less than was asked for and then nothing."""
    file = File(machine, b"abc", most=2)
    machine.answers["guest-file-read"] = lambda handle, count: {
        **file._read(handle, count),
        "eof": False,
    }
    assert b"".join(machine.agent().read("/tmp/file")) == b"abc"
    assert not file.open


def test_a_file_is_closed_after_an_error(machine: Guest) -> None:
    file = File(machine, b"x")
    machine.refuse("guest-file-write", "failed to write to file: No space left on device")
    with pytest.raises(TargetError) as caught:
        machine.agent().write("/tmp/file", iter([b"x"]))
    assert str(caught.value) == (
        "guest tcg: its agent refuses guest-file-write: "
        "failed to write to file: No space left on device"
    )
    assert not file.open
    machine.refuse("guest-file-read", "I/O error")
    machine.refuse("guest-file-close", "I/O error while closing")
    with pytest.raises(TargetError, match=r"refuses guest-file-read: I/O error$"):
        b"".join(machine.agent().read("/tmp/file"))


def test_a_file_is_closed_where_its_source_fails(machine: Guest) -> None:
    file = File(machine)

    def broken() -> Any:
        yield b"x"
        raise OSError("unreadable")

    with pytest.raises(OSError, match="unreadable"):
        machine.agent().write("/tmp/file", broken())
    assert not file.open


def test_the_largest_answer_fits_libvirts_protocol() -> None:
    """A string of the protocol has at most 4 MiB (libvirt, remote_protocol.x: REMOTE_STRING_MAX)."""
    assert len(b64(bytes(MOST_PRINTED))) + 200 < 4 << 20


@pytest.mark.parametrize(
    ("command", "answer", "ask"),
    [
        ("guest-exec", {}, lambda agent: agent.start(["true"], {}, b"")),
        ("guest-exec", None, lambda agent: agent.start(["true"], {}, b"")),
        ("guest-exec", {"pid": "7"}, lambda agent: agent.start(["true"], {}, b"")),
        ("guest-exec-status", [], lambda agent: agent.ended(7)),
        ("guest-exec-status", {"exited": 1}, lambda agent: agent.ended(7)),
        ("guest-exec-status", {"exited": True, "exitcode": {}}, lambda agent: agent.ended(7)),
        ("guest-exec-status", {"exited": True, "exitcode": -1}, lambda agent: agent.ended(7)),
        ("guest-exec-status", {"exited": True, "signal": 1 << 70}, lambda agent: agent.ended(7)),
        (
            "guest-exec-status",
            {"exited": True, "exitcode": 0, "out-data": 5},
            lambda agent: agent.ended(7),
        ),
        (
            "guest-exec-status",
            {"exited": True, "exitcode": 0, "err-data": "=a"},
            lambda agent: agent.ended(7),
        ),
        ("guest-file-open", {"handle": 1}, lambda agent: list(agent.read("/etc/passwd"))),
        ("guest-file-read", 7, lambda agent: list(agent.read("/etc/passwd"))),
        ("guest-file-read", {"buf-b64": "a"}, lambda agent: list(agent.read("/etc/passwd"))),
        ("guest-file-write", {"count": 0}, lambda agent: agent.write("/file", iter([b"data"]))),
        ("guest-file-write", {"count": 99}, lambda agent: agent.write("/file", iter([b"data"]))),
        ("guest-file-write", {"count": True}, lambda agent: agent.write("/file", iter([b"data"]))),
    ],
)
def test_invalid_answers_are_reported(machine: Guest, command: str, answer: Any, ask: Any) -> None:
    """Root in the guest may have replaced the agent, so it may answer anything."""
    machine.answers["guest-file-open"] = lambda **_: 1
    machine.answers["guest-file-close"] = lambda **_: {}
    machine.answers[command] = lambda **_: answer
    with pytest.raises(TargetError) as caught:
        ask(machine.agent())
    assert str(caught.value) == (f"guest tcg: its agent's answer to {command} is invalid")


def test_a_read_without_data_ends_the_file(machine: Guest) -> None:
    """It never reports the end of the file."""
    machine.answers["guest-file-open"] = lambda **_: 1
    machine.answers["guest-file-close"] = lambda **_: {}
    machine.answers["guest-file-read"] = lambda **_: {"count": 5, "eof": False}
    assert list(machine.agent().read("/etc/passwd")) == []
