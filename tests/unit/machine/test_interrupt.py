"""Ctrl-C, SIGTERM and SIGHUP end a run in order, and only once."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from collections.abc import Iterator

SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
#: Prints when it works, and when its cleanup begins and ends; the cleanup waits for a line of input.
PROGRAM = """
import sys, time
from pytest_vperf.machine.ending import ending_in_order

def say(word):
    print(word, flush=True)

try:
    with ending_in_order() as endings:
        try:
            say("works")
            while True:
                time.sleep(0.01)
        finally:
            say("ends")
            sys.stdin.readline()
            say("ended")
except KeyboardInterrupt as error:
    say(f"interrupted {error}")
"""
#: Ends by itself.
BY_ITSELF = """
import sys
from pytest_vperf.machine.ending import ending_in_order

with ending_in_order() as endings:
    endings.begin()
    print("ends", flush=True)
    sys.stdin.readline()
    print("ended", flush=True)
"""
#: The handler is called in a finaliser, whose errors Python only reports.
LOST = """
import os, signal, sys, time
from pytest_vperf.machine.ending import ending_in_order

class Last:
    def __del__(self):
        os.kill(os.getpid(), int(sys.argv[1]))
        for _ in range(100):
            pass

sys.unraisablehook = lambda error: print("lost", type(error.exc_value).__name__, flush=True)
with ending_in_order():
    try:
        Last()
        time.sleep(20)
        print("went on", flush=True)
    except KeyboardInterrupt:
        print("interrupted", flush=True)
"""


@contextlib.contextmanager
def started(
    program: str, *words: str, ignored: int | None = None
) -> Iterator[subprocess.Popen[str]]:
    def as_at_a_terminal() -> None:
        for number in SIGNALS:
            usual = signal.default_int_handler if number == signal.SIGINT else signal.SIG_DFL
            signal.signal(number, signal.SIG_IGN if number == ignored else usual)

    pipe = subprocess.PIPE
    with subprocess.Popen(
        [sys.executable, "-c", program, *words],
        stdin=pipe,
        stdout=pipe,
        stderr=pipe,
        text=True,
        preexec_fn=as_at_a_terminal,
    ) as process:
        try:
            yield process
        finally:
            process.kill()


def line(process: subprocess.Popen[str]) -> str:
    assert process.stdout is not None
    return process.stdout.readline().strip()


@pytest.mark.parametrize("second", SIGNALS, ids=lambda number: number.name)
@pytest.mark.parametrize("first", SIGNALS, ids=lambda number: number.name)
def test_a_second_signal_does_not_cut_the_ending_short(
    first: signal.Signals, second: signal.Signals
) -> None:
    with started(PROGRAM) as process:
        assert line(process) == "works"
        process.send_signal(first)
        assert line(process) == "ends"
        process.send_signal(second)
        process.send_signal(second)
        out, _ = process.communicate("go on\n", timeout=60)
    said = "" if first == signal.SIGINT else first.name
    assert out.splitlines() == ["ended", f"interrupted {said}"]


@pytest.mark.parametrize("number", SIGNALS, ids=lambda number: number.name)
def test_a_regular_ending_is_not_interrupted(number: signal.Signals) -> None:
    with started(BY_ITSELF) as process:
        assert line(process) == "ends"
        process.send_signal(number)
        out, _ = process.communicate("go on\n", timeout=60)
    assert (process.returncode, out) == (0, "ended\n")


def test_a_second_ctrl_c_warns_and_a_third_ends_at_once() -> None:
    with started(PROGRAM) as process:
        assert line(process) == "works"
        process.send_signal(signal.SIGINT)
        assert line(process) == "ends"
        assert process.stderr is not None
        os.set_blocking(process.stderr.fileno(), True)
        # Signals in quick succession count as one, so this one waits.
        signal_after(process, 0.7)
        assert process.stderr.readline() == "\n"
        assert process.stderr.readline() == (
            "vperf: ending what was started; another Ctrl-C leaves it to the next run, which removes it\n"
        )
        signal_after(process, 0.7)
        out, _ = process.communicate(timeout=60)
    assert out == "interrupted \n"


def signal_after(process: subprocess.Popen[str], seconds: float) -> None:
    with contextlib.suppress(subprocess.TimeoutExpired):
        process.wait(seconds)
    process.send_signal(signal.SIGINT)


def test_under_nohup_a_hangup_stays_ignored() -> None:
    with started(PROGRAM, ignored=signal.SIGHUP) as process:
        assert line(process) == "works"
        process.send_signal(signal.SIGHUP)
        with pytest.raises(subprocess.TimeoutExpired):
            process.wait(0.3)
        process.send_signal(signal.SIGTERM)
        assert line(process) == "ends"
        out, _ = process.communicate("go on\n", timeout=60)
    assert out == "ended\ninterrupted SIGTERM\n"


@pytest.mark.parametrize("number", SIGNALS, ids=lambda number: number.name)
def test_an_interrupt_swallowed_by_a_finaliser_is_raised_again(number: signal.Signals) -> None:
    with started(LOST, str(int(number))) as process:
        out, _ = process.communicate(timeout=60)
    assert out == "lost KeyboardInterrupt\ninterrupted\n"


def test_handlers_are_restored_and_those_of_others_left_alone() -> None:
    from pytest_vperf.machine.ending import ending_in_order

    def mine(number: int, frame: object) -> None:
        """Somebody else's handler."""

    earlier = {number: signal.getsignal(number) for number in SIGNALS}
    try:
        signal.signal(signal.SIGTERM, mine)
        signal.signal(signal.SIGHUP, signal.SIG_DFL)
        hook = sys.unraisablehook
        with ending_in_order() as endings:
            assert signal.getsignal(signal.SIGTERM) is mine
            assert signal.getsignal(signal.SIGHUP) == endings.heard
            with ending_in_order():
                assert signal.getsignal(signal.SIGHUP) == endings.heard
            assert signal.getsignal(signal.SIGHUP) == endings.heard
        assert signal.getsignal(signal.SIGHUP) is signal.SIG_DFL
        assert sys.unraisablehook is hook
    finally:
        for number, handler in earlier.items():
            signal.signal(number, handler)
