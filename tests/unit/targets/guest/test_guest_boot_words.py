"""Messages of failed starts: the phase in which it stopped, why, and the end of the console."""

from __future__ import annotations

import time
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import pytest

from pytest_vperf.targets.base import CannotConnect, CannotStart, TargetError, TimedOut
from pytest_vperf.targets.guest import boot as module
from pytest_vperf.targets.guest.boot import _await_agent, _first_answer
from pytest_vperf.targets.kernel.guest_kernel import INIT_LINE, KERNEL_LINE
from pytest_vperf.targets.libvirt.connection import Watch

if TYPE_CHECKING:
    from collections.abc import Mapping

    from tests.unit.targets.guest.conftest import Guest

LAST = "\nits console ended with:\nOops"


def started(watch: Watch, why: str = "", seen: Mapping[str, float] | None = None) -> Any:
    """A guest whose console has printed some lines."""
    seen = seen or {}
    lines = {KERNEL_LINE: seen.get("firmware"), INIT_LINE: seen.get("kernel")}
    return SimpleNamespace(
        name="guest tcg",
        watch=watch,
        console=SimpleNamespace(when=lines.get),
        why_gone=lambda: why,
        last_words=lambda: LAST,
    )


def wait(domain: Any, timeout: float = 5.0) -> dict[str, float]:
    marks = {"process": 1.0}
    _await_agent(domain, marks, time.perf_counter() + timeout, timeout)
    return marks


def test_the_start_ends_when_the_agent_connects() -> None:
    assert wait(started(Watch(agent=4.0))) == {"process": 1.0, "userspace": 4.0}


@pytest.mark.parametrize(
    ("seen", "phase"),
    [
        ({}, "firmware"),
        ({"firmware": 2.0}, "kernel"),
        ({"firmware": 2.0, "kernel": 3.0}, "userspace"),
    ],
)
def test_a_guest_that_ends_during_its_start_names_the_phase(
    seen: dict[str, float], phase: str
) -> None:
    with pytest.raises(CannotStart) as caught:
        wait(started(Watch(ended="x"), "its kernel panicked", seen))
    assert type(caught.value) is CannotStart
    assert str(caught.value) == (
        f"guest tcg ended in the phase '{phase}': its kernel panicked{LAST}"
    )
    assert caught.value.target == "guest tcg"


@pytest.mark.parametrize(
    ("seen", "phase", "hint"),
    [
        ({}, "firmware", ""),
        ({"firmware": 2.0}, "kernel", ""),
        (
            {"firmware": 2.0, "kernel": 3.0},
            "userspace",
            "; it runs, but its agent never connected: its image must contain qemu-guest-agent and start it",
        ),
    ],
)
def test_a_guest_that_is_not_ready_in_time_names_the_phase(
    seen: dict[str, float], phase: str, hint: str
) -> None:
    with pytest.raises(TimedOut) as caught:
        wait(started(Watch(), seen=seen), 0.02)
    assert str(caught.value) == (
        f"guest tcg was not ready within 0.02 s: it never left its phase '{phase}'{hint}{LAST}"
    )


def test_a_lost_daemon_ends_the_start() -> None:
    with pytest.raises(CannotConnect) as caught:
        wait(started(Watch(lost="the daemon has gone"), "the connection to libvirt at X ended"))
    assert str(caught.value) == f"guest tcg is gone: the connection to libvirt at X ended{LAST}"


def test_an_agent_that_answers_late_is_asked_again(
    machine: Guest, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It opens its port a moment before it reads from it."""
    naps: list[float] = []
    monkeypatch.setattr(
        module, "time", SimpleNamespace(perf_counter=time.perf_counter, sleep=naps.append)
    )

    def answer() -> dict[str, Any]:
        if len(naps) < 3:
            raise machine.error("agent is not ready: timeout")
        return {}

    machine.answers["guest-ping"] = answer
    _first_answer(machine.agent())
    assert len(naps) == 3


def test_an_agent_that_never_answers_times_out(
    machine: Guest, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "_FIRST_ANSWER", 0.0)
    machine.refuse("guest-ping", "command timeout")
    with pytest.raises(
        TimedOut, match=r"^guest tcg: its agent did not answer guest-ping within 5 s"
    ):
        _first_answer(machine.agent())
    assert len(machine.orders) == 1


def test_an_agent_that_refuses_is_not_asked_again(machine: Guest) -> None:
    machine.refuse("guest-ping", "the command guest-ping has been disabled")
    with pytest.raises(TargetError, match="refuses guest-ping"):
        _first_answer(machine.agent())
    assert len(machine.orders) == 1


@pytest.mark.parametrize(
    "said", ["", "[]", '{"return": 1}', '{"return": {"enabled": 1}}', "[" * 9**5]
)
def test_an_invalid_answer_about_the_accelerator_is_an_error(
    machine: Guest, monkeypatch: pytest.MonkeyPatch, said: str
) -> None:
    monkeypatch.setattr("libvirt_qemu.qemuMonitorCommand", lambda *_: said, raising=False)
    machine.domain.connection = SimpleNamespace(libvirt=machine.libvirt)
    config: Any = SimpleNamespace(kind="kvm")
    with pytest.raises(CannotStart) as caught:
        module._accelerator(machine.domain, config)
    assert str(caught.value) == "guest tcg: QEMU's answer to query-kvm is invalid"
