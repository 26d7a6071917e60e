"""The host as a target."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

import psutil
import pytest

from pytest_vperf.machine.processes import marked
from pytest_vperf.machine.runs import MARK, Run
from pytest_vperf.targets.base import CommandFailed, Target, TargetError, TimedOut
from pytest_vperf.targets.host import Host

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path


@pytest.fixture
def host() -> Iterator[Host]:
    with Host() as host:
        yield host


def test_the_host_is_a_target(host: Host) -> None:
    assert isinstance(host, Target)
    assert host.facts().name == host.name == "host"
    assert host.facts().details["kernel"] == f"Linux {os.uname().release}"


def test_a_command_with_input_variables_and_folder(host: Host, tmp_path: Path) -> None:
    done = host.run(
        ["sh", "-c", 'cat; echo "$A"; pwd; echo e >&2'],
        input=b"in\n",
        env={"A": "b c"},
        cwd=str(tmp_path),
    )
    assert done.text == f"in\nb c\n{tmp_path}\n"
    assert (done.returncode, done.stderr) == (0, b"e\n")


def test_a_status_other_than_0_is_an_error_unless_it_is_asked_for(host: Host) -> None:
    with pytest.raises(CommandFailed) as caught:
        host.run(["sh", "-c", "echo why >&2; exit 4"])
    assert str(caught.value) == "sh -c echo why >&2; exit 4 ended with status 4 in host:\nwhy"
    assert host.run(["no-such-command"], check=False).returncode == 127
    assert host.run(["sh", "-c", "kill -9 $$"], check=False).returncode == 137


def test_the_time_limit_is_kept_and_reported(host: Host) -> None:
    with pytest.raises(TimedOut) as caught:
        host.run(["sh", "-c", "echo begun; sleep 60 & sleep 60"], timeout=0.3)
    assert str(caught.value) == (
        "sh -c echo begun; sleep 60 & sleep 60 did not end within 0.3 s on the host and was killed"
    )
    assert (caught.value.stdout, caught.value.target) == (b"begun\n", "host")


def test_files_keep_content_and_mode(host: Host, tmp_path: Path) -> None:
    source = tmp_path / "source"
    source.write_bytes(os.urandom(70_000))
    source.chmod(0o751)
    host.put(source, str(tmp_path / "there"))
    host.get(str(tmp_path / "there"), tmp_path / "back")
    assert (tmp_path / "back").read_bytes() == source.read_bytes()
    assert (tmp_path / "back").stat().st_mode & 0o7777 == 0o751


def test_files_that_cannot_be_copied(host: Host, tmp_path: Path) -> None:
    source = tmp_path / "source"
    source.write_text("x")
    cases: dict[str, Callable[[], object]] = {
        f"{source} cannot be copied to /no/such/x: No such file or directory": (
            lambda: host.put(source, "/no/such/x")
        ),
        f"/no/such/x cannot be copied to {source}: No such file or directory": (
            lambda: host.get("/no/such/x", source)
        ),
        f"{source} cannot be copied to {tmp_path}: Is a directory": (
            lambda: host.put(source, str(tmp_path))
        ),
        f"{source} cannot be copied to {source}: it is the same file": (
            lambda: host.put(source, str(source))
        ),
        "x is not an absolute path": lambda: host.put(source, "x"),
    }
    for message, action in cases.items():
        with pytest.raises(TargetError) as caught:
            action()
        assert str(caught.value) == message


def test_usage_grows_with_the_work_of_commands(host: Host) -> None:
    host.run(["true"])
    before = host.usage()
    host.run(["sh", "-c", "i=0; while [ $i -lt 200000 ]; do i=$((i+1)); done"])
    after = host.usage()
    assert after.cpu_time > before.cpu_time
    assert after.memory is None


def test_processes_carry_the_run_s_mark_and_none_is_left(runs_dir: Path) -> None:
    with Run.begin() as run:
        with Host(run) as host:
            host.run(["sh", "-c", "sleep 77 >/dev/null 2>&1 </dev/null &"])
            (left,) = marked(MARK, run.id)
            assert left.cmdline() == ["sleep", "77"]
        assert not left.is_running() or left.status() == psutil.STATUS_ZOMBIE
        assert list(marked(MARK, run.id)) == []
