"""Commands are ended by the mark that all their processes carry, in whatever session."""

from __future__ import annotations

import os
import secrets
import signal
import subprocess

from pytest_vperf.targets.base import end_marked


def start(script: str, **variables: str) -> subprocess.Popen[bytes]:
    """A shell that has reported that it runs."""
    process = subprocess.Popen(
        ["sh", "-c", script],
        env={"PATH": os.environ["PATH"], **variables},
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
    )
    assert process.stdout is not None
    assert process.stdout.readline() == b"up\n"
    return process


def test_only_marked_processes_are_killed() -> None:
    mark, other = secrets.token_hex(8), secrets.token_hex(8)
    marked = start("setsid sh -c 'echo up; exec sleep 60' & wait", VPERF_UNIT=mark)
    spared = [
        start("echo up; exec cat", VPERF_UNIT=other),
        start("echo up; exec cat", VPERF_OTHER=mark),
    ]
    try:
        done = subprocess.run(end_marked("VPERF_UNIT", mark), capture_output=True, timeout=60)
        assert (done.returncode, done.stdout, done.stderr) == (0, b"", b"")
        marked.communicate(timeout=10)  # closed once the last process that has it open is gone
        assert marked.returncode == -signal.SIGKILL
        for process in spared:
            said, _ = process.communicate(b"there", timeout=10)
            assert (process.returncode, said) == (0, b"there")
    finally:
        for process in (marked, *spared):
            process.kill()
            process.communicate()


def test_nothing_to_end_is_no_error() -> None:
    done = subprocess.run(end_marked("VPERF_UNIT", secrets.token_hex(8)), timeout=60)
    assert done.returncode == 0
