"""Two measurements never overlap on a machine."""

from __future__ import annotations

import os
import signal
import stat
import subprocess
import sys
import textwrap
import threading
from typing import TYPE_CHECKING

import pytest

from pytest_vperf.machine import lock

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

HOLDER = textwrap.dedent(
    """
    import sys
    from pytest_vperf.machine import lock
    with lock.measuring():
        print("held", flush=True)
        sys.stdin.readline()
    """
)


@pytest.fixture
def path(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    path = tmp_path / "lock"
    monkeypatch.setenv("VPERF_LOCK", str(path))
    return path


@pytest.fixture
def holder(path: Path) -> Iterator[subprocess.Popen[str]]:
    """Another process that measures until it reads a line."""
    command = [sys.executable, "-c", HOLDER]
    with subprocess.Popen(
        command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "held\n"
        yield process
        if process.poll() is None:
            process.kill()


def test_a_second_measurement_waits_and_names_the_holder(
    path: Path, holder: subprocess.Popen[str]
) -> None:
    said: list[str] = []

    def on_wait(who: str) -> None:
        said.append(who)
        if len(said) == 3:
            assert holder.stdin is not None
            holder.stdin.write("\n")
            holder.stdin.flush()

    with lock.measuring(on_wait) as waited:
        assert waited > 0
    assert said[0] == f"process {holder.pid} of user {os.getuid()}: -c"


def test_a_killed_holder_leaves_the_lock_free(path: Path, holder: subprocess.Popen[str]) -> None:
    holder.send_signal(signal.SIGKILL)
    holder.wait()
    with lock.measuring(limit=0) as waited:
        assert waited < lock.WAIT_LIMIT


def test_waiting_ends_at_the_limit(path: Path, holder: subprocess.Popen[str]) -> None:
    with (
        pytest.raises(lock.LockTimeout, match=rf"\(process {holder.pid} .*\) held this machine"),
        lock.measuring(limit=0),
    ):
        pass


def test_a_measurement_inside_a_measurement_does_not_wait(path: Path) -> None:
    with lock.measuring(), lock.measuring() as waited:
        assert waited == 0
    with lock.measuring(limit=0):
        assert path.read_text().startswith(f"process {os.getpid()} ")
    assert path.read_text() == ""


def test_threads_take_turns(path: Path) -> None:
    inside, most = 0, 0

    def measure() -> None:
        nonlocal inside, most
        with lock.measuring():
            inside += 1
            most = max(most, inside)
            threading.Event().wait(0.01)
            inside -= 1

    threads = [threading.Thread(target=measure) for _ in range(5)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert most == 1


def test_other_users_can_take_the_lock_whatever_the_umask(path: Path) -> None:
    before = os.umask(0o077)
    try:
        with lock.measuring():
            pass
    finally:
        os.umask(before)
    assert stat.S_IMODE(path.stat().st_mode) == 0o666


def test_a_link_planted_by_another_user_is_not_followed(path: Path, tmp_path: Path) -> None:
    victim = tmp_path / "victim"
    victim.write_text("precious")
    path.symlink_to(victim)
    with pytest.raises(OSError), lock.measuring():
        pass
    assert victim.read_text() == "precious"


def test_other_kinds_of_files_are_refused(path: Path) -> None:
    os.mkfifo(path)
    with pytest.raises(OSError, match="not a regular file"), lock.measuring():
        pass


def test_a_file_with_content_is_not_taken_for_a_lock(path: Path) -> None:
    """As with ``VPERF_LOCK=results.json``."""
    path.write_text("precious")
    path.chmod(0o644)
    with pytest.raises(OSError) as caught, lock.measuring():
        pass
    assert str(caught.value) == (
        f"the measuring lock {path} is not available: it is a file with content, and no lock; have VPERF_LOCK name"
        " another file, the same for everybody who measures here"
    )
    assert (path.read_text(), stat.S_IMODE(path.stat().st_mode)) == ("precious", 0o644)


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can give a file away")
def test_root_does_not_write_to_the_file_of_another_user(path: Path) -> None:
    path.write_text("precious")
    path.chmod(0o644)
    os.chown(path, 54321, -1)
    with lock.measuring():
        assert path.read_text() == "precious"
    assert path.read_text() == "precious"


def test_an_error_frees_the_lock(path: Path) -> None:
    with pytest.raises(KeyError), lock.measuring():
        raise KeyError
    with lock.measuring(limit=0):
        pass


def test_the_path_of_the_lock_does_not_depend_on_the_user(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("VPERF_LOCK", raising=False)
    monkeypatch.setenv("TMPDIR", "/somewhere")
    assert str(lock.lock_path()) in (
        "/run/lock/vperf-measuring.lock",
        "/tmp/vperf-measuring.lock",
    )
