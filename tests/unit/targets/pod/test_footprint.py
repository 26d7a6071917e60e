"""Recognising too little memory in a failed start, and the search for the minimum without real pods."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from pytest_vperf.targets.base import (
    CannotConnect,
    CannotStart,
    CommandFailed,
    Completed,
    TargetError,
    TimedOut,
    Unavailable,
)
from pytest_vperf.targets.pod.endings import MachineEnded, NotReady, too_little
from pytest_vperf.targets.pod.footprint import Footprint
from pytest_vperf.targets.pod.pods import Pods
from pytest_vperf.targets.scope import Scope

PANIC = (
    "[    0.412345] Kernel panic - not syncing: System is deadlocked on memory\r\n"
    "[    0.412345] CPU: 0 PID: 1 Comm: init Not tainted 6.1.0-cloud-amd64\r\n" + "x" * 2000
)


def ended(status: int | None, console: str = "", phase: str = "kernel") -> MachineEnded:
    return MachineEnded(
        f"pod: QEMU ended in the phase {phase!r}",
        target="pod",
        phase=phase,
        status=status,
        console=console,
    )


def failed(status: int, words: bytes = b"") -> CommandFailed:
    return CommandFailed(Completed(("true",), status, b"", words, 0.1), target="pod")


@pytest.mark.parametrize(
    ("error", "console", "words"),
    [
        (ended(0, PANIC), "", "panic: System is deadlocked on memory"),
        (
            ended(0, phase="firmware"),
            "",
            "no boot: the machine reset itself in the phase 'firmware'",
        ),
        (
            CannotStart("QEMU said: qemu-system-x86_64: initrd is too large, need 12"),
            "",
            "no boot: initrd is too large, need 12",
        ),
        (
            MachineEnded(
                "pod: QEMU ended with status 1\nQEMU said: qemu: initrd is too large, need 12",
                target="pod",
                phase="process",
                status=1,
                console="",
            ),
            "",
            "no boot: initrd is too large, need 12",
        ),
        (
            NotReady(
                "late",
                target="pod",
                phase="firmware",
                console="\nOut of memory\n\n -- System halted",
            ),
            "",
            "out of memory: Out of memory",
        ),
        (
            NotReady("late", target="pod", phase="kernel", console=""),
            "",
            "no boot: it never left its phase 'kernel'",
        ),
        (
            CannotStart("the container did not start: mount the overlay: Cannot allocate memory"),
            "",
            "out of memory: the container did not start: mount the overlay: Cannot allocate memory",
        ),
        (
            CannotStart(
                "its container ended at once (sleep infinity) with status 137 and no output"
            ),
            "",
            "out of memory: the container's process was killed",
        ),
        (failed(137), "", "out of memory: a command was killed"),
        (
            failed(137),
            "[    1.5] Out of memory: Killed process 61 (true)",
            "out of memory: Out of memory: Killed process 61 (true)",
        ),
        (CannotConnect("pod is gone"), PANIC, "panic: System is deadlocked on memory"),
        (
            TimedOut("true did not end"),
            "",
            "out of memory: it starts, and a command in it does not end",
        ),
    ],
)
def test_symptoms_of_too_little_memory_are_recognised(
    error: TargetError, console: str, words: str
) -> None:
    assert too_little(error, console) == words


@pytest.mark.parametrize(
    "error",
    [
        ended(-9, PANIC),  # somebody killed it, whatever its console says
        ended(137),  # the same, on another machine
        ended(1, phase="process"),
        ended(0, phase="process"),
        ended(1),
        ended(None),
        # The host itself lacks memory: QEMU reports it before its machine runs.
        MachineEnded(
            "pod: QEMU ended with status 1 in the phase 'process'\nQEMU said: qemu-system-x86_64: cannot set up "
            "guest memory 'pc.ram': Cannot allocate memory",
            target="pod",
            phase="process",
            status=1,
            console="",
        ),
        NotReady("QEMU did not answer", target="pod", phase="process", console=""),
        CannotStart("the container did not start: sleep: No such file or directory"),
        CannotStart("its container ended at once (sh) with status 3 and no output"),
        CannotConnect("pod is gone"),
        failed(127),
    ],
)
def test_archives_without_a_size(error: TargetError) -> None:
    assert too_little(error) is None


class Machines(Pods):
    """Pods that start with at least this memory; a started pod is only a name."""

    def __init__(self, least: int, scope: Scope) -> None:
        nothing: Any = None
        super().__init__(lambda: nothing, nothing, scope, accelerator="tcg")
        self.least = least
        self.log: list[str] = []
        self.limits: list[float | None] = []
        self.instead: TargetError | None = None

    @property
    def identity(self) -> tuple[str, ...]:
        return ("7.2", "kernel")

    def start(self, *, memory: str = "", timeout: float | None = None, **_: Any) -> Any:
        self.log.append(memory)
        self.limits.append(timeout)
        if self.instead is not None:
            raise self.instead
        if int(memory.split()[0]) < self.least:
            raise ended(0, PANIC)
        return Machine(self.log, memory)


class Machine:
    name = "pod tcg qboot"
    console = ""

    def __init__(self, log: list[str], memory: str) -> None:
        self._log = log
        self._details = {"memory": memory}

    def run(self, argv: list[str], *, timeout: float) -> None:
        assert argv == ["true"]

    def note(self, name: str, text: str) -> None:
        self._details[name] = text

    def facts(self) -> Any:
        return SimpleNamespace(kind="pod", name=self.name, details=self._details)

    def close(self) -> None:
        if self._log[-1] != "closed":
            self._log.append("closed")


def test_the_record_has_what_was_tried() -> None:
    scope = Scope()
    machines = Machines(67, scope)
    footprint = Footprint({})
    least = footprint.minimum_memory(machines)
    assert (least.memory.value, least.memory.unit, least.memory.direction) == (67, "MiB", "lower")
    # One at a time, and none is left.
    assert machines.log[:4] == ["512 MiB", "closed", "256 MiB", "closed"]
    assert machines.log[-1] == "closed"
    panic = "panic: System is deadlocked on memory"
    (facts,) = scope.facts
    assert facts.details["memory"] == "67 MiB"
    assert facts.details["memory_search"] == (
        "512 MiB starts; 256 MiB starts; 128 MiB starts; "
        f"64 MiB {panic}; 96 MiB starts; 80 MiB starts; 72 MiB starts; 68 MiB starts; "
        f"66 MiB {panic}; 67 MiB starts; 66 MiB {panic}; 67 MiB starts"
    )
    # The first start has the full time limit; the others are limited by how long it took.
    assert machines.limits[0] is None
    assert all(limit == 5.0 for limit in machines.limits[1:])
    machines.log.clear()
    again = footprint.minimum_memory(machines)
    assert again.memory == least.memory
    assert again.search == f"67 MiB starts; 66 MiB {panic}; 66 MiB {panic}; 67 MiB starts"
    pod: Any = again.start()
    assert pod.facts().details["memory_search"] == again.search


def test_another_error_ends_the_search() -> None:
    machines = Machines(67, Scope())
    machines.instead = CannotStart("pod: no such machine type", target="pod")
    with pytest.raises(CannotStart, match="no such machine type"):
        Footprint({}).minimum_memory(machines)
    assert machines.log == ["512 MiB"]


def test_a_pod_that_never_starts_ends_the_search() -> None:
    with pytest.raises(
        CannotStart, match="no least memory of pods was found: 512 fails already: panic"
    ):
        Footprint({}).minimum_memory(Machines(513, Scope()))


def test_pods_on_xen_have_no_minimum_memory() -> None:
    with pytest.raises(Unavailable, match="pods that QEMU starts"):
        Footprint({}).minimum_memory(SimpleNamespace())
