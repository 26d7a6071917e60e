"""Commands in a guest: the requests to its agent, and the meaning of their status."""

from __future__ import annotations

import base64
import os
import signal
import subprocess
import threading
from typing import TYPE_CHECKING, Any, cast

import pytest

from pytest_vperf.targets.agent.target import ENVIRONMENT
from pytest_vperf.targets.base import CannotConnect, CommandFailed, TargetError, TimedOut
from pytest_vperf.targets.guest import guest as module
from pytest_vperf.targets.guest.guest import CHUNK, Guest

if TYPE_CHECKING:
    from pathlib import Path

    from tests.unit.targets.guest.conftest import Guest as Machine


@pytest.fixture
def guest(machine: Machine) -> Guest:
    """A guest whose commands succeed at once."""
    machine.answers["guest-exec"] = lambda **_: {"pid": 77}
    machine.answers["guest-exec-status"] = lambda pid: {"exited": True, "exitcode": 0}
    machine.answers["guest-file-open"] = lambda path, mode: 1000
    machine.answers["guest-file-write"] = lambda handle, buf_b64: {
        "count": len(base64.b64decode(buf_b64))
    }
    machine.answers["guest-file-close"] = lambda handle: {}
    return Guest(machine.domain, machine.agent(), 10.0, {"process": 10.1}, {}, cast("Any", None))


def end_with(machine: Machine, **answer: Any) -> None:
    machine.answers["guest-exec-status"] = lambda pid: {"exited": True, **answer}


def test_arguments_reach_the_agent_unchanged(guest: Guest, machine: Machine) -> None:
    completed = guest.run(
        ["printf", "%s", "$HOME; *"], input=b"in", env={"LANG": "C", "HOME": "/h"}
    )
    (order,) = machine.given("guest-exec")
    assert [order["path"], *order["arg"]] == ["printf", "%s", "$HOME; *"]
    assert base64.b64decode(order["input-data"]) == b"in"
    *environment, mark = order["env"]
    assert environment == [f"PATH={ENVIRONMENT['PATH']}", "HOME=/h", "LANG=C"]
    assert mark.startswith("VPERF_COMMAND=")
    assert completed.argv == ("printf", "%s", "$HOME; *")
    assert (completed.returncode, completed.stdout, completed.stderr) == (0, b"", b"")
    assert 0 <= completed.duration < 10


def shell(order: dict[str, Any], **change: str) -> subprocess.CompletedProcess[bytes]:
    """Run the agent's command on this machine."""
    words = [change.get(word, word) for word in [order["path"], *order["arg"]]]
    return subprocess.run(words, capture_output=True, check=False, timeout=60)


@pytest.mark.parametrize("folder", ["it's here", "-n", "$HOME"])
def test_a_command_runs_in_its_working_folder(
    guest: Guest, machine: Machine, tmp_path: Path, folder: str
) -> None:
    (tmp_path / folder).mkdir()
    guest.run(["printf", "%s|", "a b", "", "-x"], cwd=str(tmp_path / folder))
    guest.run(["pwd", "-P"], cwd=str(tmp_path / folder))
    words, place = machine.given("guest-exec")
    assert shell(words).stdout == b"a b||-x|"
    assert shell(place).stdout == f"{tmp_path / folder}\n".encode()


@pytest.mark.parametrize(
    ("argv", "folder", "status"),
    [(["true"], "none", 127), (["/none"], "", 127), (["/etc/passwd"], "", 126)],
)
def test_a_missing_folder_or_program_has_a_shells_status(
    guest: Guest, machine: Machine, tmp_path: Path, argv: list[str], folder: str, status: int
) -> None:
    guest.run(argv, cwd=str(tmp_path / folder))
    assert shell(machine.given("guest-exec")[0]).returncode == status


def test_long_input_is_passed_by_a_file_that_is_removed(
    guest: Guest, machine: Machine, tmp_path: Path
) -> None:
    data = os.urandom(CHUNK * 2 + 5)
    guest.run(["cat"], input=data)
    (opened,) = machine.given("guest-file-open")
    path = opened["path"]
    assert path.startswith("/run/vperf-")
    pieces = [base64.b64decode(w["buf-b64"]) for w in machine.given("guest-file-write")]
    assert b"".join(pieces) == data
    assert max(map(len, pieces)) <= CHUNK
    command, removal = machine.given("guest-exec")
    assert "input-data" not in command
    here = tmp_path / "input"
    here.write_bytes(data)
    assert shell(command, **{path: str(here)}).stdout == data
    assert [removal["path"], *removal["arg"]] == ["rm", "-f", path]


def test_input_of_one_piece_needs_no_file(guest: Guest, machine: Machine) -> None:
    guest.run(["cat"], input=b"x" * CHUNK)
    assert machine.given("guest-file-open") == []


@pytest.mark.parametrize(
    ("why", "status"),
    [
        ("No such file or directory", 127),
        ("Permission denied", 126),
        ("Exec format error", 126),
    ],
)
def test_a_program_that_cannot_be_executed_has_a_shells_status(
    guest: Guest, machine: Machine, why: str, status: int
) -> None:
    machine.refuse("guest-exec", f'Failed to execute child process "x" ({why})')
    completed = guest.run(["x", "y"], check=False)
    assert completed.returncode == status
    assert completed.stderr == f"x: {why}\n".encode()
    with pytest.raises(CommandFailed) as caught:
        guest.run(["x", "y"])
    assert str(caught.value) == f"x y ended with status {status} in guest tcg:\nx: {why}"


def test_a_signal_is_128_and_its_number(guest: Guest, machine: Machine) -> None:
    end_with(machine, signal=11, **{"err-data": base64.b64encode(b"no\n").decode()})
    assert guest.run(["x"], check=False).returncode == 128 + signal.SIGSEGV
    with pytest.raises(CommandFailed, match=r"^x ended with status 139 in guest tcg:\nno$"):
        guest.run(["x"])


def test_a_command_that_takes_too_long_is_killed_with_all_it_started(
    guest: Guest, machine: Machine
) -> None:
    """Also its children and those that left its session: all carry its mark."""
    alive = [True]

    def start(path: str, arg: list[str], **_: Any) -> dict[str, int]:
        if path == "sh":
            alive[0] = False
            return {"pid": 78}
        return {"pid": 77}

    def status(pid: int) -> dict[str, Any]:
        if pid == 77 and alive[0]:
            return {"exited": False}
        return {"exited": True, "signal": 9, "out-data": base64.b64encode(b"half").decode()}

    machine.answers |= {"guest-exec": start, "guest-exec-status": status}
    with pytest.raises(TimedOut) as caught:
        guest.run(["sleep", "60"], timeout=0.0)
    assert str(caught.value) == "sleep 60 did not end in time in guest tcg; it was killed"
    assert (caught.value.stdout, caught.value.target) == (b"half", "guest tcg")
    command, killer = machine.given("guest-exec")
    mark = command["env"][-1].removeprefix("VPERF_COMMAND=")
    assert killer["arg"][-1] == mark
    assert not any(mark in variable for variable in killer["env"])  # it would kill itself

    # Its script for the guest's shell runs in this machine's.
    victim = subprocess.Popen(
        ["sh", "-c", "setsid sh -c 'echo up; exec sleep 60' & wait"],
        env={**os.environ, "VPERF_COMMAND": mark},
        stdout=subprocess.PIPE,
    )
    try:
        assert victim.stdout is not None
        assert victim.stdout.readline() == b"up\n"
        assert shell(killer).returncode == 0
        assert victim.wait(10) == -signal.SIGKILL
        victim.communicate(timeout=10)  # closed once the last process that has it open is gone
    finally:
        victim.kill()
        victim.wait()


def test_output_beyond_the_agents_limit_is_an_error(guest: Guest, machine: Machine) -> None:
    end_with(machine, exitcode=0, **{"out-truncated": True})
    with pytest.raises(TargetError) as caught:
        guest.run(["yes", "x"])
    assert str(caught.value) == (
        "guest tcg: a command printed more than its agent keeps: have it write to a file, and get() that\n"
        "(`yes x`; output may have 2900000 bytes)"
    )


def test_a_guest_that_is_gone_is_not_taken_for_long_output(guest: Guest, machine: Machine) -> None:
    machine.ended = True
    machine.refuse("guest-exec-status", "domain is not running", "VIR_ERR_OPERATION_INVALID")
    with pytest.raises(CannotConnect, match=r"^guest tcg is gone: it crashed\n"):
        guest.run(["true"])


def test_bad_commands_are_refused(guest: Guest, machine: Machine) -> None:
    with pytest.raises(ValueError, match="a command has at least one word"):
        guest.run([])
    with pytest.raises(
        TargetError, match="guest tcg: an argument of a command has a NUL character"
    ):
        guest.run(["a", "b\0"])
    assert machine.orders == []


def test_files_keep_their_mode(guest: Guest, machine: Machine, tmp_path: Path) -> None:
    source = tmp_path / "tool"
    source.write_bytes(b"x" * (CHUNK + 1))
    source.chmod(0o4751)
    guest.put(source, "/opt/tool")
    assert machine.given("guest-file-open") == [{"path": "/opt/tool", "mode": "wb"}]
    written = b"".join(base64.b64decode(w["buf-b64"]) for w in machine.given("guest-file-write"))
    assert written == source.read_bytes()
    (order,) = machine.given("guest-exec")
    assert [order["path"], *order["arg"]] == ["chmod", "4751", "/opt/tool"]


def test_two_commands_run_at_once(guest: Guest, machine: Machine) -> None:
    """A race has a thread for each target; a server and its client may share one target."""
    both = threading.Barrier(2, timeout=10)

    def status(pid: int) -> dict[str, Any]:
        both.wait()
        return {"exited": True, "exitcode": 0}

    machine.answers["guest-exec-status"] = status
    threads = [threading.Thread(target=guest.run, args=(["true"],)) for _ in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(20)
    assert not both.broken


def test_the_startup_time_is_broken_down_by_phase(machine: Machine) -> None:
    marks = {"process": 10.25, "firmware": 10.5, "kernel": 11.0, "userspace": 13.0}
    guest = Guest(machine.domain, machine.agent(), 10.0, marks, {}, cast("Any", None))
    assert guest.startup_time.breakdown == tuple(
        zip(module.PHASES, (250.0, 250.0, 500.0, 2000.0), strict=True)
    )
    assert (guest.startup_time.value, guest.startup_time.unit) == (3000.0, "ms")
