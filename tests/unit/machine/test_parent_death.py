"""The kernel signals a process that asked for it when its parent dies, however that dies."""

from __future__ import annotations

import os
import signal
import subprocess
import sys

import psutil
import pytest

from pytest_vperf.machine.ending import start_bound
from pytest_vperf.machine.processes import wait_gone

PARENT = """
import signal, subprocess, sys, time
from pytest_vperf.machine.ending import at_parents_death

child = subprocess.Popen(
    [sys.executable, "-c", sys.argv[2]],
    stdout=subprocess.PIPE,
    start_new_session=True,
    preexec_fn=at_parents_death(signal.Signals(int(sys.argv[1]))),
)
child.stdout.readline()
print(child.pid, flush=True)
time.sleep(60)
"""
#: Ignores SIGHUP, and reports when it does.
CHILD = """
import signal, time
signal.signal(signal.SIGHUP, signal.SIG_IGN)
print("up", flush=True)
time.sleep(60)
"""


@pytest.mark.parametrize(
    ("number", "ends"), [(signal.SIGKILL, True), (signal.SIGTERM, True), (signal.SIGHUP, False)]
)
def test_the_requested_signal_is_sent(number: signal.Signals, ends: bool) -> None:
    parent = subprocess.Popen(
        [sys.executable, "-c", PARENT, str(int(number)), CHILD], stdout=subprocess.PIPE, text=True
    )
    assert parent.stdout is not None
    child = psutil.Process(int(parent.stdout.readline()))
    try:
        os.kill(parent.pid, signal.SIGKILL)
        parent.communicate(timeout=10)
        assert wait_gone([child], 10.0 if ends else 0.2) == ([] if ends else [child])
    finally:
        if child.is_running():
            child.kill()
        parent.kill()
        parent.communicate()


#: Starts the child from a thread that ends at once, as a pool's may, and waits.
IN_A_THREAD = """
import signal, subprocess, sys, threading, time
from pytest_vperf.machine import ending as parent_death

started = []
def start():
    started.append(parent_death.start_bound(
        [sys.executable, "-c", sys.argv[1]], signal.SIGKILL, stdout=subprocess.PIPE, start_new_session=True
    ))
thread = threading.Thread(target=start)
thread.start()
thread.join()
(child,) = started
child.stdout.readline()
print(child.pid, flush=True)
time.sleep(60)
"""


def test_a_child_ends_with_our_process_and_not_with_its_thread() -> None:
    parent = subprocess.Popen(
        [sys.executable, "-c", IN_A_THREAD, CHILD], stdout=subprocess.PIPE, text=True
    )
    assert parent.stdout is not None
    child = psutil.Process(int(parent.stdout.readline()))
    try:
        assert wait_gone([child], 0.3) == [child]
        os.kill(parent.pid, signal.SIGKILL)
        parent.communicate(timeout=10)
        assert wait_gone([child], 10.0) == []
    finally:
        if child.is_running():
            child.kill()
        parent.kill()
        parent.communicate()


def test_a_program_that_cannot_be_executed_is_the_callers_error() -> None:
    with pytest.raises(FileNotFoundError, match="/no/such"):
        start_bound(["/no/such"], signal.SIGKILL)
    with start_bound([sys.executable, "-c", "print(1)"], signal.SIGKILL, stdout=-1) as process:
        assert process.communicate()[0] == b"1\n"
