"""The share of a thread and the memory of a process, of real ones."""

from __future__ import annotations

import os
import subprocess
import sys
import threading
import time
from pathlib import Path
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any, cast

import psutil
import pytest
from passing_time import Clock

from pytest_vperf.targets.base import Completed, TargetError, Unavailable
from pytest_vperf.workloads import processors
from pytest_vperf.workloads.memory import ProcMem
from pytest_vperf.workloads.processors import ThreadCpu

if TYPE_CHECKING:
    from collections.abc import Iterator


class There:
    """A host whose files are read by a command."""

    def run(self, argv: list[str], *, check: bool) -> Completed:
        done = subprocess.run(argv, capture_output=True, check=check)
        return Completed(tuple(argv), done.returncode, done.stdout, done.stderr, 0.0)


#: Two threads with names of their own: one spins, one sleeps; then so many MiB are touched.
_CHILD = """
import ctypes, sys, threading, time
name = ctypes.CDLL(None).prctl
def spin():
    name(15, b"CPU 0/TCG", 0, 0, 0)
    while True: pass
def rest():
    name(15, b"worker", 0, 0, 0)
    time.sleep(1000)
for work in (spin, rest):
    threading.Thread(target=work, daemon=True).start()
data = bytearray(64 << 20)
data[::4096] = b"x" * len(data[::4096])
time.sleep(0.2)
print("ready", flush=True)
time.sleep(1000)
"""


@pytest.fixture(scope="module")
def child() -> Iterator[subprocess.Popen[bytes]]:
    with subprocess.Popen([sys.executable, "-c", _CHILD], stdout=subprocess.PIPE) as process:
        try:
            assert process.stdout is not None
            assert process.stdout.readline() == b"ready\n"
            yield process
        finally:
            process.kill()


def test_a_spinning_thread_takes_more_than_a_sleeping_one(child: subprocess.Popen[bytes]) -> None:
    threads = ThreadCpu()
    before = time.process_time()
    spinning = threads.share(child.pid, "CPU 0/TCG", window=0.5)
    assert time.process_time() - before < 0.4, "looking at a thread takes no time of its own"
    sleeping = threads.share(child.pid, "worker", window=0.2)
    assert spinning.unit == sleeping.unit == "%"
    # How much it gets on a busy machine is not ours to say.
    assert spinning.value > sleeping.value == 0


def test_share_is_what_the_thread_says_of_itself(monkeypatch: pytest.MonkeyPatch) -> None:
    """It works within the window only, and rests when it is looked at: the kernel then has accounted for all."""
    clock = Clock()
    begin, stop = threading.Event(), threading.Event()
    used: list[float] = []

    def work() -> None:
        begin.wait()
        while time.thread_time() < 0.3:
            sum(range(1000))
        used.append(time.thread_time())
        stop.wait()

    thread = threading.Thread(target=work)

    def rests() -> bool:
        stat = Path(f"/proc/self/task/{thread.native_id}/stat").read_text()
        return stat.rpartition(") ")[2].startswith("S")

    def window(seconds: float) -> None:
        begin.set()
        deadline = time.monotonic() + 60
        while not (used and rests()):
            assert time.monotonic() < deadline
            time.sleep(0.01)
        clock.sleep(seconds)

    monkeypatch.setattr(
        processors, "time", SimpleNamespace(monotonic=clock.monotonic, sleep=window)
    )
    thread.start()
    try:
        # A thread's own name is the process's until it is changed: it is looked up by its number.
        share = ThreadCpu().share(thread.native_id or 0, window=1.0)
    finally:
        begin.set()
        stop.set()
        thread.join()
    # User and system time are counted in whole ticks of 1 % each, at both ends.
    assert share.value == pytest.approx(100 * used[0], abs=3)


def test_unknown_thread_is_refused_with_the_names(child: subprocess.Popen[bytes]) -> None:
    message = rf"process {child.pid} has 0 threads named 'CPU 1/TCG', not one; it has: .*CPU 0/TCG.*worker"
    with pytest.raises(TargetError, match=message):
        ThreadCpu().share(child.pid, "CPU 1/TCG")


def test_unknown_process_is_refused() -> None:
    with pytest.raises(TargetError, match="there is no process 4194303"):
        ThreadCpu().share(4194303, "worker")
    with pytest.raises(TargetError, match="there is no process 4194303"):
        ProcMem().of(4194303)
    with pytest.raises(TargetError, match="there are 0 processes named 'vhost-4194303', not one"):
        ThreadCpu().kernel_share("vhost-4194303")


def test_memory_of_a_process_is_what_its_status_says(child: subprocess.Popen[bytes]) -> None:
    memory = ProcMem().of(child.pid)
    status = Path(f"/proc/{child.pid}/status").read_text().splitlines()
    lines = dict(line.split(":", 1) for line in status if ":" in line)
    size = int(lines["VmSize"].split()[0]) / 1024
    rss = int(lines["VmRSS"].split()[0]) / 1024
    assert memory.size.to("MiB").value == pytest.approx(size, rel=0.02)
    assert memory.rss.to("MiB").value == pytest.approx(rss, rel=0.1)
    assert memory.rss.value > 64
    assert memory.rss.direction == "lower"


def test_memory_on_another_host_is_read_there(child: subprocess.Popen[bytes]) -> None:
    there = cast("Any", There())
    here, memory = ProcMem().of(child.pid), ProcMem().of(child.pid, on=there)
    assert memory.rss.value == pytest.approx(here.rss.value, rel=0.1)
    assert memory.size.value == pytest.approx(here.size.value, rel=0.02)
    pss = ProcMem().pss(child.pid, on=there)
    assert pss.value == pytest.approx(ProcMem().pss(child.pid).value, rel=0.1)
    with pytest.raises(TargetError, match=r"memory of process 4194303 cannot be read: .*No such"):
        ProcMem().of(4194303, on=there)


def test_shared_pages_count_in_part(child: subprocess.Popen[bytes]) -> None:
    rollup = Path(f"/proc/{child.pid}/smaps_rollup").read_text().splitlines()
    pss = next(int(line.split()[1]) for line in rollup if line.startswith("Pss:")) / 1024
    measured = ProcMem().pss(child.pid)
    assert measured.to("MiB").value == pytest.approx(pss, rel=0.1)
    assert 64 < measured.value <= ProcMem().of(child.pid).rss.value * 1.01
    assert measured.direction == "lower"


def test_a_process_that_may_not_be_asked_is_not_measured(monkeypatch: pytest.MonkeyPatch) -> None:
    def denied(self: psutil.Process) -> Any:
        raise psutil.AccessDenied(self.pid)

    monkeypatch.setattr(psutil.Process, "memory_full_info", denied)
    with pytest.raises(Unavailable, match=r"another user's \(to mend it: run as that user, or as"):
        ProcMem().pss(os.getpid())


def test_a_process_without_memory_is_not_zero() -> None:
    process = subprocess.Popen(["true"])
    try:
        deadline = time.monotonic() + 10
        while time.monotonic() < deadline:
            if ") Z " in Path(f"/proc/{process.pid}/stat").read_text():
                break
        with pytest.raises(TargetError, match="has no memory of its own"):
            ProcMem().of(process.pid)
        with pytest.raises(TargetError, match=r"has no memory of its own|there is no process"):
            ProcMem().pss(process.pid)
        with pytest.raises(TargetError, match="has no memory of its own"):
            ProcMem().of(process.pid, on=cast("Any", There()))
    finally:
        process.wait()
