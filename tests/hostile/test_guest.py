"""A machine whose first process is an attacker in place of the agent: whatever it sends, starts and commands end.

The attacker is `guest.c`, in a real QEMU; the file /manner selects what it sends.
"""

from __future__ import annotations

import dataclasses
import re
from pathlib import Path

import pytest
from attacks import ROOM, ends_within, grows_less_than
from engine_here import require

from pytest_vperf.machine import compiler
from pytest_vperf.targets.agent import wire
from pytest_vperf.targets.base import CannotConnect, CannotStart, TargetError, TimedOut
from pytest_vperf.targets.image.rootfs import default_rootfs
from pytest_vperf.targets.kernel import guest_kernel
from pytest_vperf.targets.kernel.guest_kernel import Archive
from pytest_vperf.targets.pod.assets import Assets, prepare
from pytest_vperf.targets.pod.pod import IDLE, Pod, boot
from pytest_vperf.targets.pod.probe import check

#: Seconds for a start that never ends, and for one that has to: a shared machine boots in two to twenty.
SHORT, LONG = (4.0, 12.0, 40.0), 120.0


def patient(*values: str):
    """One more of a kind, of which the landing gate takes the others."""
    return pytest.param(*values, marks=pytest.mark.patient)


@pytest.fixture(autouse=True)
def short_grace(monkeypatch):
    """A guest has ten seconds to confirm that it has killed a command. The attacker does not, and is not slow."""
    monkeypatch.setattr(wire, "_GRACE", 1.0)


@pytest.fixture(scope="session")
def assets() -> Assets:
    require("pod", check(afresh=False)[0])
    return prepare(default_rootfs())


@pytest.fixture(scope="session")
def enemy() -> bytes:
    source = (Path(__file__).parent / "guest.c").read_bytes()
    return compiler.build("hostile", "guest", {"guest.c": source}, ("-Os",)).read_bytes()


@pytest.fixture(scope="module")
def start(assets, enemy, session_run, tmp_path_factory):
    """Starts a machine with an enemy in it."""

    def start(manner: str, timeout: float) -> Pod:
        archive = Archive()
        archive.folder("dev")
        archive.device("dev/console", 5, 1)
        archive.file("init", enemy, 0o755)
        archive.file("manner", manner.encode())
        drivers = guest_kernel.collect_modules(assets.kernel.modules, guest_kernel.MODULES_NEEDED)
        archive.folder("modules")
        archive.file("modules/order", "".join(f"{name}\n" for name, _ in drivers).encode())
        for name, content in drivers:
            archive.file(f"modules/{name}", content)
        initramfs = tmp_path_factory.mktemp("enemy") / "initramfs"
        initramfs.write_bytes(archive.bytes())
        hostile = dataclasses.replace(assets, initramfs=initramfs)
        config = hostile.config("tcg", "qboot", memory_mib=256)
        return boot(hostile, config, "qboot", session_run, command=IDLE, timeout=timeout)

    return start


@pytest.mark.parametrize(
    ("manner", "phase"),
    [
        ("flood", "agent"),
        ("ready-crumbs", "container"),
        patient("silent", "agent"),
        patient("cut", "agent"),
        patient("console", "agent"),
        patient("ready-flood", "container"),
        patient("ready-again", "container"),
    ],
)
def test_a_start_that_never_ends_is_ended(start, manner, phase):
    """Retried with more time where the machine was too slow for the attacker to begin."""
    for timeout in SHORT:
        with ends_within(timeout + 30), grows_less_than(ROOM), pytest.raises(TimedOut) as caught:
            start(manner, timeout)
        if f"its phase '{phase}'" in str(caught.value):
            break
    assert re.search(f"was not ready in time: it never left its phase '{phase}'", str(caught.value))


@pytest.mark.parametrize(
    ("manner", "words"),
    [
        ("long", r"the agent sent no frame \(type 16, length 4294967295\)"),
        ("escapes", "the container did not start"),
        patient("unknown", r"the agent sent no frame \(type 99, length 0\)"),
        patient("errno", "the container did not start: no such luck"),
        patient("bare", "pod tcg qboot"),
    ],
)
def test_invalid_starts_are_reported(start, manner, words):
    with ends_within(LONG), pytest.raises(CannotStart, match=words):
        start(manner, LONG)


@pytest.fixture(scope="module")
def served(start):
    """Gives a machine that has come up; another one after an attack that takes it."""
    running: list[Pod] = []

    def get(*, to_lose: bool = False) -> Pod:
        pod = running.pop() if running else start("serve", LONG)
        (lost if to_lose else running).append(pod)
        return pod

    lost: list[Pod] = []
    yield get
    for each in [*running, *lost]:
        each.close()


@pytest.mark.parametrize(
    ("command", "words"),
    [
        ("errno", "no such luck"),
        ("status", "ended with status 4294967295"),
        ("bare-exit", "pod tcg qboot"),
        ("bare-failed", "pod tcg qboot"),
        ("escapes", "ended with status 3"),
    ],
)
def test_an_invalid_answer_is_an_error(served, command, words):
    with ends_within(LONG), pytest.raises(TargetError, match=words):
        served().run([command], timeout=LONG)


def test_ending_twice_is_ending_once(served):
    pod = served()
    with ends_within(LONG):
        assert pod.run(["ends-again"], timeout=LONG).returncode == 0
        pod.run(["anything"], timeout=LONG, check=False)  # whose end it told before, maybe


@pytest.mark.parametrize(
    "command",
    [
        "trickle",
        patient("flood-another"),
        patient("crumbs"),
        patient("empty-frames"),
        patient("silent"),
    ],
)
def test_a_command_that_never_ends_is_ended(served, command):
    pod = served(to_lose=True)
    with (
        ends_within(60),
        grows_less_than(ROOM),
        pytest.raises(TimedOut, match="did not end within 2 s"),
    ):
        pod.run([command], timeout=2)
    with ends_within(60):
        pod.close()


@pytest.mark.patient
def test_endless_output_is_cut(served):
    pod = served(to_lose=True)
    with (
        ends_within(LONG),
        grows_less_than(ROOM),
        pytest.raises(TargetError, match="more than 8 MiB"),
    ):
        pod.run(["flood"], timeout=LONG, max_output=8 << 20)


@pytest.mark.patient
def test_an_endless_file_is_cut(served, tmp_path):
    pod = served(to_lose=True)
    with (
        ends_within(LONG),
        grows_less_than(ROOM),
        pytest.raises(TargetError, match="more than 8 MiB"),
    ):
        pod.get("/etc/passwd", tmp_path / "passwd", limit=8 << 20)
    assert list(tmp_path.iterdir()) == []


def test_a_machine_that_dies_during_a_command_is_gone(served):
    with ends_within(LONG), pytest.raises(CannotConnect, match="pod tcg qboot is gone"):
        served(to_lose=True).run(["die"], timeout=LONG)
