"""Events that the start of a machine on Xen waits for, and the errors when they do not come."""

from __future__ import annotations

import time
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import pytest

from pytest_vperf.targets.agent.wire import Frame, Type
from pytest_vperf.targets.base import CannotConnect, CannotStart, TimedOut
from pytest_vperf.targets.libvirt.connection import Watch
from pytest_vperf.targets.xen.boot import Booted, DomuConfig, boot
from pytest_vperf.targets.xen.domus import Domu

if TYPE_CHECKING:
    from collections.abc import Sequence

LAST = "\nits console ended with:\nOops"
READY = Frame(Type.READY, 0, b"6.1.0")
RUNNING = Frame(Type.RUNNING, 1)
OUTPUT = Frame(Type.OUTPUT, 1, b"hello")


class Speaker:
    """A speaker with frames given by the test, a list at a time."""

    name = "domu pv"

    def __init__(self, says: Sequence[list[Frame] | Exception | None]) -> None:
        self._says = list(says)

    def wait(self, deadline: float) -> list[Frame] | None:
        if not self._says:
            time.sleep(max(0.0, deadline - time.perf_counter()))
            return []
        said = self._says.pop(0)
        if isinstance(said, Exception):
            raise said
        return said


def booted(*says: list[Frame] | Exception | None, timeout: float = 5.0) -> Booted:
    domain: Any = SimpleNamespace(
        name="domu pv", why_gone=lambda: "it crashed", last_words=lambda: LAST
    )
    speaker: Any = Speaker(says)
    now = time.perf_counter()
    return Booted(domain, speaker, now, {"process": now}, now + timeout)


def test_each_frame_ends_its_phase() -> None:
    """Also where several come at once; none in between is lost."""
    machine = booted([], [READY, OUTPUT, RUNNING], [OUTPUT])
    machine.await_frame(Type.READY, "agent")
    machine.await_frame(Type.RUNNING, "container")
    assert list(machine.marks) == ["process", "agent", "container"]
    assert machine.marks["process"] <= machine.marks["agent"] <= machine.marks["container"]
    assert machine.frames(machine.deadline) == [OUTPUT]


def test_frames_that_arrive_with_the_awaited_one_are_kept() -> None:
    machine = booted([RUNNING, OUTPUT])
    machine.await_frame(Type.RUNNING, "container")
    assert machine.frames(machine.deadline) == [OUTPUT]


@pytest.mark.parametrize(
    ("says", "text"),
    [
        (
            [Frame(Type.FAILED, 0, b"\2\0\0\0mount the image")],
            f"domu pv: its agent could not mount the image: No such file or directory{LAST}",
        ),
        (None, f"domu pv ended in the phase 'agent': it crashed{LAST}"),
        (CannotConnect("domu pv: its console no longer carries", target="domu pv"), "domu pv: *"),
    ],
)
def test_a_machine_that_fails_to_start_says_why(
    says: list[Frame] | Exception | None, text: str
) -> None:
    with pytest.raises(CannotStart) as caught:
        booted(says).await_frame(Type.READY, "agent")
    pytest.LineMatcher([str(caught.value).replace("\n", "|")]).fnmatch_lines(
        [text.replace("\n", "|")]
    )
    assert caught.value.target == "domu pv"


def test_a_machine_that_is_not_ready_in_time_names_the_phase() -> None:
    with pytest.raises(TimedOut) as caught:
        booted([OUTPUT], timeout=0.02).await_frame(Type.READY, "agent")
    assert str(caught.value) == (
        f"domu pv was not ready in time: it never left its phase 'agent'{LAST}"
    )


def test_a_machine_that_ends_during_its_setup_is_reported() -> None:
    machine = booted([RUNNING], None)
    machine.await_frame(Type.RUNNING, "container")
    with pytest.raises(CannotStart, match=r"^domu pv ended in the phase 'container': it crashed"):
        machine.frames(machine.deadline)


def test_a_start_that_is_interrupted_leaves_nothing() -> None:
    """The files are released and the machine is ended: it may have been made before the Ctrl-C."""
    done: list[str] = []

    def interrupted(xml: str, flags: int) -> None:
        raise KeyboardInterrupt

    made = SimpleNamespace(destroy=lambda: done.append("destroyed"))
    connection: Any = SimpleNamespace(
        libvirt=SimpleNamespace(libvirtError=OSError, VIR_DOMAIN_START_PAUSED=1),
        handle=SimpleNamespace(createXML=interrupted, lookupByName=lambda name: made),
        watches=SimpleNamespace(add=lambda name: Watch(), remove=lambda name: None),
    )
    config = DomuConfig("vperf-1", "pv", "/k", "/i", "", (), 1, 256)
    with pytest.raises(KeyboardInterrupt):
        boot(
            connection,
            config,
            "domu pv",
            kernel_line=b"up",
            timeout=5.0,
            opened=lambda: done.append("let go"),
        )
    assert done == ["let go", "destroyed"]


def test_a_full_machine_has_no_container() -> None:
    machine = booted()
    machine.marks = {
        "process": machine.began + 0.25,
        "kernel": machine.began + 1.0,
        "agent": machine.began + 3.0,
    }
    parts = Domu("domu", machine, {}, None).startup_time.breakdown  # type: ignore[arg-type]
    assert [name for name, _ in parts] == ["process", "kernel", "agent"]
    assert [value for _, value in parts] == pytest.approx([250, 750, 2000])
