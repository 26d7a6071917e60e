"""The benchmark's kinds of machines: finding the run's own, killing some, and counting a round."""

from __future__ import annotations

import os
import secrets
import subprocess
import sys
import threading
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import pytest
from machine_kinds import KINDS, TIMEOUT, Kind, Processes, XenDomains
from machines_ten_times import play

from pytest_vperf.targets.base import CannotConnect, CannotStart, TargetError
from pytest_vperf.targets.host import Host

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from pathlib import Path

#: As of xl 4.17, with one domain that is being torn down.
LISTED = """\
Name                                        ID   Mem VCPUs\tState\tTime(s)
Domain-0                                     0  1536     2     r-----     101.5
vperf-{mark}-11                              4   256     1     -b----       5.2
(null)                                       5     0     1     --ps-d       4.0
vperf-{mark}-2                               6   256     1     ------       0.0
vperf-ffffffff-1                             7   256     1     -b----       5.1
"""
XL = """#!/bin/sh
case $1 in
list) cat "$0.list" ;;
destroy) sed -i "/^$2 /d; t" "$0.list"; echo "$2" >>"$0.destroyed"; ! grep -q gone "$0.$2" 2>/dev/null ;;
esac
"""


@pytest.fixture
def mark() -> str:
    return secrets.token_hex(4)


@pytest.fixture
def xl(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, mark: str) -> Path:
    """A fake xl on this machine."""
    program = tmp_path / "bin" / "xl"
    program.parent.mkdir()
    program.write_text(XL)
    program.chmod(0o755)
    (program.parent / "xl.list").write_text(LISTED.format(mark=mark))
    monkeypatch.setenv("PATH", f"{program.parent}:{os.environ['PATH']}")
    return program


@pytest.fixture
def qemu(tmp_path: Path, mark: str) -> Iterator[subprocess.Popen[bytes]]:
    """A process that looks like a guest's QEMU."""
    name = tmp_path / "qemu-system-x86_64"
    name.symlink_to(sys.executable)
    script = "import time; print(flush=True); time.sleep(60)"
    with subprocess.Popen(
        [str(name), "-c", script, f"guest=vperf-{mark}-1,debug-threads=on"],
        executable=sys.executable,
        stdout=subprocess.PIPE,
    ) as process:
        assert process.stdout is not None
        process.stdout.readline()
        yield process
        process.kill()


def test_guests_are_processes(mark: str, qemu: subprocess.Popen[bytes]) -> None:
    own = Processes(f"vperf-{mark}")
    assert own.running() == [str(qemu.pid)]
    assert own.left() == [f"process {qemu.pid}"]
    assert Processes("vperf-" + secrets.token_hex(4)).running() == []
    assert own.kill([]) == 0
    assert own.kill(own.running()) == 1
    qemu.wait(10)
    assert own.kill([str(qemu.pid)]) == 0
    assert own.left() == []


def test_domus_are_listed_by_xen(mark: str, xl: Path) -> None:
    own = XenDomains(Host(), f"vperf-{mark}")
    first, second = f"vperf-{mark}-11", f"vperf-{mark}-2"
    assert own.running() == [first, second]
    assert own.left() == [f"domain {first}", f"domain {second}"]
    assert own.kill([]) == 0
    assert own.kill([first, second]) == 2
    destroyed = (xl.parent / "xl.destroyed").read_text().split()
    assert sorted(destroyed) == [first, second]


def test_a_domu_that_was_gone_was_not_killed(mark: str, xl: Path) -> None:
    (xl.parent / f"xl.vperf-{mark}-2").write_text("gone")
    assert XenDomains(Host(), f"vperf-{mark}").kill([f"vperf-{mark}-11", f"vperf-{mark}-2"]) == 1


def test_a_process_of_a_disk_is_found(mark: str, xl: Path) -> None:
    (xl.parent / "xl.list").write_text("")
    pipe = subprocess.PIPE
    command = ["cat", "-", f"vperf-{mark}-1"]
    with subprocess.Popen(command, stdin=pipe, stdout=pipe, bufsize=0) as process:
        assert process.stdin is not None
        assert process.stdout is not None
        process.stdin.write(b"x")
        assert process.stdout.read(1) == b"x"  # it has its command line now
        found = XenDomains(Host(), f"vperf-{mark}").left()
        process.kill()
    assert found == [f"process {process.pid} cat - vperf-{mark}-1 of the host"]


# ---- a round ------------------------------------------------------------------------------------------


class Machine:
    """A machine whose command runs until it is killed, or for a moment."""

    def __init__(self, error: TargetError | None) -> None:
        self.error = error
        self.killed = threading.Event()
        self.closed = False

    def run(self, argv: Sequence[str], timeout: float) -> None:
        assert argv[0] == "sleep"
        if self.killed.wait(float(argv[1])) and self.error:
            raise self.error

    def close(self) -> None:
        self.closed = True


class Place:
    """Machines and their hypervisor."""

    def __init__(self, *errors: TargetError | None) -> None:
        self.made = {str(number): Machine(error) for number, error in enumerate(errors)}
        self._next = iter(list(self.made.values()))

    def start(self, **_: object) -> Machine:
        try:
            return next(self._next)
        except StopIteration:
            raise CannotStart("there is no room") from None

    def running(self) -> list[str]:
        return [name for name, machine in self.made.items() if not machine.closed]

    def kill(self, chosen: Sequence[str]) -> int:
        for name in chosen:
            self.made[name].killed.set()
        return len(chosen)

    def left(self) -> list[str]:
        return [f"domain {name}" for name in self.running()]


@pytest.fixture
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(KINDS, "domu", Kind("xen", "it ended", command=0.3, kill_after=0.05))


def a_round(place: Place, machines: int, kill: int) -> int:
    handle = SimpleNamespace(listAllDomains=list)
    daemon: Any = SimpleNamespace(
        run=SimpleNamespace(cgroup="vperf-0"),
        connection=SimpleNamespace(handle=handle),
        storage=SimpleNamespace(names=lambda: ["vperf-0-1.qcow2", "kernel-0"]),
    )
    options = SimpleNamespace(kind="domu", machines=machines, kill=kill, at_once=2, seed=1)
    there: Any = place
    return play(1, there, daemon, there, options)


DEATH = CannotConnect("domu pv is gone: it ended while sleep 40 ran\nmore")


def test_a_correct_round_has_no_wrong_endings(
    quick: None, capsys: pytest.CaptureFixture[str]
) -> None:
    assert a_round(Place(DEATH, DEATH, DEATH), 3, 2) == 0
    head, line, _ = capsys.readouterr().out.split("\n")
    assert head.startswith("round 1: 3 started, 2 killed, 2 errors, 1 left, ")
    assert line == "    2 x CannotConnect: domu pv is gone: it ended while sleep 40 ran"


@pytest.mark.parametrize(
    ("errors", "wrong"),
    [
        ([DEATH, CannotConnect("domu pv is gone")], 1),
        ([DEATH, TargetError("it ended")], 1),
        ([DEATH, None], 1),
        ([None, None], 2),
        ([DEATH], 1),  # the other did not start
    ],
)
def test_wrong_endings_are_counted(
    quick: None, errors: list[TargetError | None], wrong: int, capsys: pytest.CaptureFixture[str]
) -> None:
    assert a_round(Place(*errors), 2, 2) == wrong


def test_every_kind_can_be_chosen() -> None:
    assert set(KINDS) == {"guest.tcg", "guest.kvm", "domu"}
    for kind in KINDS.values():
        assert 0 < kind.kill_after < kind.command < TIMEOUT
