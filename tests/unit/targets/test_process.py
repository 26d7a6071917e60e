"""Processes of the host: status, output, time limit, and nothing left behind."""

from __future__ import annotations

import os
import sys
import time
from pathlib import Path

import psutil
import pytest
from examples import examples
from hypothesis import given, settings
from hypothesis import strategies as st

from pytest_vperf.targets.process import OutOfTime, run_process

ENV = dict(os.environ)


def alive(mark: str) -> list[str]:
    found = []
    for process in psutil.process_iter():
        try:
            if mark in process.cmdline() and process.status() != psutil.STATUS_ZOMBIE:
                found.append(str(process))
        except psutil.Error:
            continue
    return found


def test_output_status_and_environment() -> None:
    done = run_process(["sh", "-c", 'echo "$A"; echo e >&2; exit 3'], env={**ENV, "A": "b c"})
    assert (done.returncode, done.stdout, done.stderr) == (3, b"b c\n", b"e\n")
    assert done.duration > 0


@pytest.mark.parametrize("number", [9, 15])
def test_a_signal_is_128_and_its_number(number: int) -> None:
    done = run_process(["sh", "-c", f"kill -{number} $$"], env=ENV)
    assert done.returncode == 128 + number


@pytest.mark.parametrize(
    ("argv", "cwd", "status", "words"),
    [
        (["no-such-command"], None, 127, b"no-such-command: No such file or directory\n"),
        (["/no/such/file"], None, 127, b"/no/such/file: No such file or directory\n"),
        (["/etc"], None, 126, b"/etc: Permission denied\n"),
        (["/etc/passwd"], None, 126, b"/etc/passwd: Permission denied\n"),
        (["true"], "/no/such/folder", 127, b"/no/such/folder: No such file or directory\n"),
    ],
)
def test_programs_that_cannot_be_executed_have_a_shells_status(
    argv: list[str], cwd: str | None, status: int, words: bytes
) -> None:
    done = run_process(argv, env=ENV, cwd=cwd)
    assert (done.returncode, done.stderr) == (status, words)


def test_a_file_that_is_not_a_program_has_status_126(tmp_path: Path) -> None:
    path = tmp_path / "text"
    path.write_text("neither a script nor a program\n")
    path.chmod(0o755)
    done = run_process([str(path)], env=ENV)
    assert (done.returncode, done.stderr) == (126, f"{path}: Exec format error\n".encode())


def test_an_empty_command_is_an_error() -> None:
    with pytest.raises(ValueError, match="at least one word"):
        run_process([], env=ENV)


@settings(max_examples=examples(15))
@given(st.binary(max_size=300_000))
def test_input_is_passed_whole(data: bytes) -> None:
    assert run_process(["cat"], input=data, env=ENV).stdout == data


def test_input_that_nobody_reads_is_no_error() -> None:
    assert run_process(["true"], input=b"x" * 1_000_000, env=ENV).returncode == 0


def test_large_output_on_both_streams_does_not_block() -> None:
    script = "import sys; sys.stderr.write('e' * 500000); sys.stdout.write('o' * 500000)"
    done = run_process([sys.executable, "-c", script], env=ENV)
    assert (len(done.stdout), len(done.stderr)) == (500_000, 500_000)


@pytest.mark.parametrize(
    "script",
    [
        "echo begun; sleep {n}",
        "trap '' TERM INT HUP; echo begun; sleep {n}; sleep {n}",
        "echo begun; sleep {n} & exit 0",  # a child that holds the pipes
        "echo begun; setsid sleep {n}",  # a child in a session of its own
        "exec 2>&-; echo begun; exec >&-; sleep {n}",  # no pipe to wait for
    ],
)
def test_at_the_limit_everything_is_killed_and_the_output_kept(script: str) -> None:
    mark = f"{1000 + os.getpid()}.{time.monotonic_ns() % 1_000_000}"
    with pytest.raises(OutOfTime) as caught:
        run_process(["sh", "-c", script.format(n=mark)], env=ENV, timeout=0.4)
    assert caught.value.output.stdout == b"begun\n"
    assert alive(mark) == []


def test_a_keyboard_interrupt_leaves_nothing() -> None:
    mark = f"{2000 + os.getpid()}.25"
    script = (
        "import os, signal, threading, sys\n"
        "from pytest_vperf.targets.process import run_process\n"
        "threading.Timer(0.5, lambda: os.kill(os.getpid(), signal.SIGINT)).start()\n"
        "try: run_process(['sleep', sys.argv[1]], env=dict(os.environ))\n"
        "except KeyboardInterrupt: print('interrupted')\n"
    )
    done = run_process([sys.executable, "-c", script, mark], env=ENV)
    assert done.stdout == b"interrupted\n", done.stderr
    assert alive(mark) == []


def test_cpu_time_is_the_process_s_own() -> None:
    script = "import time\nwhile time.process_time() < 0.3: pass"
    busy = run_process([sys.executable, "-c", script], env=ENV)
    idle = run_process(["sleep", "0.3"], env=ENV)
    assert busy.cpu_time >= 0.3
    assert idle.cpu_time < busy.cpu_time
    assert idle.duration >= 0.3


def test_no_file_descriptor_is_left() -> None:
    run_process(["true"], env=ENV)
    before = len(list(Path("/proc/self/fd").iterdir()))
    for _ in range(5):
        run_process(["cat"], input=b"x", env=ENV)
    assert len(list(Path("/proc/self/fd").iterdir())) == before
