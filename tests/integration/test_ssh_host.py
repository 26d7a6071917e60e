"""Another host reached by SSH: a private real ``sshd`` on the loopback with its own keys."""

from __future__ import annotations

import os
import socket
import subprocess
import time
from typing import TYPE_CHECKING

import pytest
import sshd_here

from pytest_vperf.machine.preflight import find_program
from pytest_vperf.targets.base import (
    CannotConnect,
    CommandFailed,
    TargetError,
    TimedOut,
    TooMuchOutput,
    Unavailable,
)
from pytest_vperf.targets.host import Host
from pytest_vperf.targets.remote.ssh import SshHost
from pytest_vperf.targets.scope import Scope
from pytest_vperf.workloads.bench import Bench
from pytest_vperf.workloads.iperf3 import Iperf3

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from pytest_vperf.machine.preflight import Readiness
    from pytest_vperf.machine.runs import Run


@pytest.fixture(scope="module")
def sshd(
    short_folder: Path, require: Callable[[str, Readiness], None]
) -> Iterator[tuple[int, Path]]:
    """The port of a server for this user, and a configuration for clients."""
    require("host", sshd_here.check())
    # It would forward a display, too, if it were asked.
    display = "X11Forwarding yes\nXAuthLocation /usr/bin/xauth"
    with sshd_here.serve(short_folder / "ssh", settings=display) as server:
        yield server.port, server.config


@pytest.fixture
def remote(sshd: tuple[int, Path], session_run: Run) -> Iterator[SshHost]:
    port, config = sshd
    with SshHost(f"ssh://loopback:{port}", session_run, config=config) as host:
        yield host


def test_nothing_of_this_machine_is_forwarded(
    sshd: tuple[int, Path], session_run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whatever the user's settings have for logins by hand."""
    port, config = sshd
    ports = []
    for _ in range(2):
        with socket.socket() as probe:
            probe.bind(("127.0.0.1", 0))
            ports.append(probe.getsockname()[1])
    mine = tmp_path / "config"
    mine.write_text(
        config.read_text()
        + "Host *\n  ForwardAgent yes\n  ForwardX11 yes\n  ForwardX11Trusted yes\n"
        + f"  LocalForward {ports[0]} 127.0.0.1:{port}\n"
        + f"  RemoteForward {ports[1]} 127.0.0.1:{port}\n"
        + f"  PermitLocalCommand yes\n  LocalCommand touch {tmp_path}/called\n"
    )
    agent = tmp_path / "agent"
    own = subprocess.Popen(["ssh-agent", "-D", "-a", str(agent)], stdout=subprocess.DEVNULL)
    try:
        while not agent.is_socket():
            assert own.poll() is None
            time.sleep(0.02)
        monkeypatch.setenv("SSH_AUTH_SOCK", str(agent))
        monkeypatch.setenv("DISPLAY", ":77")
        with SshHost(f"ssh://loopback:{port}", session_run, config=mine) as host:
            seen = host.run(["sh", "-c", 'echo "${SSH_AUTH_SOCK-none} ${DISPLAY-none}"']).text
            # Our own connection works all the same, and nothing else is forwarded.
            host.connection.forward(tmp_path / "here", str(agent))
            taken = [each for each in ports if _listens(each)]
            assert (tmp_path / "here").is_socket()
    finally:
        own.kill()
        own.wait()
    assert seen == "none none\n"
    assert taken == []
    assert not (tmp_path / "called").exists()


def _listens(port: int) -> bool:
    with socket.socket() as probe:
        return probe.connect_ex(("127.0.0.1", port)) == 0


def test_arguments_arrive_unchanged(remote: SshHost) -> None:
    words = ["a b", "", "$HOME", "*", "'", '"', "\\", "a;b", "\n", "ä"]
    done = remote.run(["printf", "%s|", *words], env={"LC_ALL": "C.UTF-8"})
    assert done.text == "".join(f"{word}|" for word in words)
    assert done.argv == ("printf", "%s|", *words)


def test_command_has_its_environment_folder_and_input(remote: SshHost, tmp_path: Path) -> None:
    script = 'echo "$COLOUR"; pwd; cat; echo no >&2'
    done = remote.run(
        ["sh", "-c", script], env={"COLOUR": "a b"}, cwd=str(tmp_path), input=b"in\0put"
    )
    assert done.stdout == b"a b\n" + str(tmp_path).encode() + b"\nin\0put"
    assert done.stderr == b"no\n"


@pytest.mark.parametrize(
    ("argv", "status"),
    [
        (["sh", "-c", "exit 3"], 3),
        (["sh", "-c", "exit 255"], 255),
        (["sh", "-c", "kill -9 $$"], 137),
        (["/no/such/program"], 127),
        (["/etc/passwd"], 126),
    ],
)
def test_status_is_a_shells(remote: SshHost, argv: list[str], status: int) -> None:
    assert remote.run(argv, check=False).returncode == status
    with pytest.raises(CommandFailed, match=rf"ended with status {status} in other host \(ssh\)"):
        remote.run(argv)


def test_commands_over_their_time_limit_are_ended_on_the_other_machine(remote: SshHost) -> None:
    with pytest.raises(
        TimedOut, match=r"sleep 612 did not end within 0\.5 s on other host \(ssh\)"
    ):
        remote.run(["sleep", "612"], timeout=0.5)
    left = remote.run(
        ["sh", "-c", "cat /proc/[0-9]*/cmdline 2>/dev/null | tr '\\0' ' '"], check=False
    )
    assert "sleep 612" not in left.text.replace("sh -c", "")


def test_files_are_copied_both_ways(remote: SshHost, tmp_path: Path) -> None:
    source = tmp_path / "it"
    source.write_bytes(bytes(range(256)) * 100)
    source.chmod(0o750)
    remote.put(source, str(tmp_path / "there"))
    assert (tmp_path / "there").stat().st_mode & 0o7777 == 0o750
    remote.get(str(tmp_path / "there"), tmp_path / "back")
    assert (tmp_path / "back").read_bytes() == source.read_bytes()
    with pytest.raises(TargetError, match=r"/no/such on other host \(ssh\): .*No such file"):
        remote.get("/no/such", tmp_path / "never")
    with pytest.raises(TargetError, match="relative is not an absolute path"):
        remote.put(source, "relative")


def test_facts_and_programs_are_those_of_the_remote_host(remote: SshHost) -> None:
    details = remote.facts().details
    assert details["kernel"] == f"Linux {os.uname().release}"
    assert details["address"] == "127.0.0.1"
    assert details["placement"] == "machine reached by SSH"
    program = remote.program("sh")
    assert program.origin == "host"
    assert program.path.startswith("/")
    with pytest.raises(Unavailable, match=r"nosuchtool is not installed on other host \(ssh\)"):
        remote.program("nosuchtool")


def test_iperf3_between_host_and_remote(remote: SshHost, session_run: Run) -> None:
    if find_program("iperf3") is None:
        pytest.skip("iperf3 is not installed on this host (to mend it: apt-get install iperf3)")
    scope = Scope()
    with Host(session_run, tools="host") as host:
        host.link = remote.local
        iperf3 = Iperf3(Bench(scope))
        there = iperf3.tcp(host, to=remote, time=1, omit=0)
        back = iperf3.tcp(remote, to=host, time=1, omit=0)
    assert there.throughput.value > 1e6
    assert back.throughput.value > 1e6


def test_a_broken_connection_is_not_a_status_of_the_command(
    sshd: tuple[int, Path], session_run: Run
) -> None:
    port, config = sshd
    remote = SshHost(f"ssh://loopback:{port}", session_run, config=config)
    # The server's process for this connection is the parent of the shell that runs the command.
    kill = 'kill -9 "$(ps -o ppid= -p "$PPID" | tr -d " ")" $PPID'
    with (
        remote,
        pytest.raises(CannotConnect, match=r"other host \(ssh\): ssh cannot reach loopback"),
    ):
        remote.run(["sh", "-c", kill], timeout=30)


def test_unknown_host_key_is_refused(
    sshd: tuple[int, Path], session_run: Run, tmp_path: Path
) -> None:
    port, config = sshd
    other = tmp_path / "config"
    known = config.parent / "known"
    other.write_text(config.read_text().replace(str(known), str(tmp_path / "known")))
    with pytest.raises(CannotConnect, match=r"Host key verification failed"):
        SshHost(f"ssh://127.0.0.1:{port}", session_run, config=other)


def test_an_unreachable_host_is_reported(session_run: Run) -> None:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
        with pytest.raises(
            CannotConnect, match=r"ssh cannot reach 127\.0\.0\.1: .*Connection refused"
        ):
            SshHost(f"ssh://127.0.0.1:{port}", session_run)


def test_connection_is_ended_with_the_target(sshd: tuple[int, Path], session_run: Run) -> None:
    port, config = sshd
    before = {path.name for path in session_run.folder.glob("ssh*")}
    remote = SshHost(f"ssh://loopback:{port}", session_run, config=config)
    assert {path.name for path in session_run.folder.glob("ssh*")} - before
    remote.close()
    remote.close()
    assert {path.name for path in session_run.folder.glob("ssh*")} == before


def test_endless_output_and_files_are_cut(remote: SshHost, tmp_path: Path) -> None:
    with pytest.raises(TooMuchOutput, match="yes printed more than 8 MiB in other host"):
        remote.run(["yes"], max_output=8 << 20)
    (tmp_path / "large").write_bytes(bytes(1001))
    with pytest.raises(TooMuchOutput, match="has more than 1000 bytes: give get"):
        remote.get(str(tmp_path / "large"), tmp_path / "got", limit=1000)
    with pytest.raises(TargetError, match="it is not a regular file"):
        remote.get("/dev/zero", tmp_path / "got")
    assert not (tmp_path / "got").exists()
    remote.get(str(tmp_path / "large"), tmp_path / "got", limit=1001)
    assert (tmp_path / "got").stat().st_size == 1001
    assert remote.run(["echo", "still here"]).text == "still here\n"
