"""Replacing a pod's container: another image is plugged in, its container takes the place of the one that runs.

The clock is that of a start: the host's monotonic one, from the request until the new container's process runs. The
image was made a disk before. Each border between phases is pushed by the machine:

    disk       request → the agent has found the new image's disk, after QEMU was told to plug it in
    stop       → the container before has ended, with all its processes (its exit status has come)
    container  → the new container's process has been executed

After the clock the new container is watched for as after a start, the agent says when nothing has the disk of the
one before open, and that disk is unplugged, so that the next replacement finds the machine as this one did.
"""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

from pytest_vperf.targets.agent.wire import Frame, Type, command_payload
from pytest_vperf.targets.base import CannotConnect
from pytest_vperf.targets.phases import startup_quantity
from pytest_vperf.targets.pod import hotplug
from pytest_vperf.targets.pod.qmp import QmpError, QmpTimeout
from pytest_vperf.targets.pod.settling import settle, settling_time

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping
    from pathlib import PurePath

    from pytest_vperf.quantity import Quantity
    from pytest_vperf.targets.pod.machine import Machine

PHASES = ("disk", "stop", "container")
_CONTAINER = 1  # its stream
#: Seconds that the agent's word of the old disk is waited for, before the time limit is looked at again.
_SLICE = 0.1
#: Bytes of what the new container printed that are kept, for the error if it ends.
_KEPT = 4096


class Replacement:
    """One replacement in a machine.

    Args:
        machine: was started with an image that can be unplugged.
        number: of the replacement, from 1 on; images are named by it.
        file: the new image, on the machine that QEMU runs on.
        command: the new container's process.
        environment: its variables.
        timeout: seconds for all of it.

    Raises:
        ValueError: the command has a NUL character.
    """

    def __init__(
        self,
        machine: Machine,
        number: int,
        file: PurePath,
        command: tuple[str, ...],
        environment: Mapping[str, str],
        timeout: float,
    ) -> None:
        self._machine = machine
        self._old, self._new = (
            hotplug.FIRST if not before else f"image{before}" for before in (number - 1, number)
        )
        self._file = file
        self._command = command
        self._start = Frame(
            Type.START, _CONTAINER, command_payload(command, dict(environment), "/")
        )
        self._timeout = timeout
        self._released = False
        self._said = self._before = b""

    def perform(self) -> Quantity:
        """Do it; in ms, with its phases as parts. Where it raises, the machine is of no use any more.

        Raises:
            CannotConnect: the machine had ended before.
            CannotStart: the machine ended, QEMU refused the image, or the new container did not start.
            TimedOut: it took longer than the time limit.
        """
        machine = self._machine
        if not machine.is_there:
            raise CannotConnect(
                f"{machine.name} is gone: its container cannot be replaced{machine.last_words()}",
                target=machine.name,
            )
        marks: dict[str, float] = {}
        try:
            file = machine.hand_over(self._file)
            began = time.perf_counter()
            deadline = began + self._timeout
            hotplug.plug(machine.qmp, machine.config.machine, self._new, file)
            serial = hotplug.serial(self._new).encode() + b"\0"
            machine.wire.send(Frame(Type.IMAGE, 0, serial))
            marks["disk"], _ = machine.next_of((Type.DISK,), _doing("disk"), deadline)
            # Not before the image is there: until now the container was not touched.
            machine.wire.send(self._start)
            while "container" not in marks:
                phase = "container" if "stop" in marks else "stop"
                at, frame = machine.next_of((Type.EXIT, Type.RUNNING), _doing(phase), deadline)
                if frame.stream == _CONTAINER:
                    marks["container" if frame.type is Type.RUNNING else "stop"] = at
            self._tidy(began, marks, deadline)
        except QmpTimeout as error:
            raise machine.late(_doing(_phase(marks)), str(error)) from error
        except QmpError as error:
            raise machine.ended(_doing(_phase(marks)), str(error)) from error
        return startup_quantity(began, marks, PHASES)

    def _tidy(self, began: float, marks: Mapping[str, float], deadline: float) -> None:
        """Watch the new container for a moment, and take the old one's disk out."""
        machine, took = self._machine, marks["container"] - began
        watched = settling_time(took, marks["container"] - marks["disk"])
        self._watch(watched)
        while not self._released:
            if time.perf_counter() >= deadline:
                raise machine.late(_doing("release"))
            self._watch(_SLICE)
        hotplug.unplug(machine.qmp, self._old, max(0.1, deadline - time.perf_counter()))
        # All of that took a moment more, and an end that was told meanwhile is one at once, too.
        self._watch(0.0)

    def _watch(self, seconds: float) -> None:
        self._before = self._said
        settle(self._frames, self._machine.name, self._command, seconds)

    def _frames(self, deadline: float) -> Iterable[Frame]:
        frames = self._machine.next_frames(deadline)
        self._released = self._released or any(each.type is Type.RELEASED for each in frames)
        # It is watched in several turns; what it printed in one may be why it ended in another.
        before, self._before = Frame(Type.OUTPUT, _CONTAINER, self._before), b""
        prints = (each.payload for each in frames if each.type in (Type.OUTPUT, Type.ERRORS))
        self._said = (self._said + b"".join(prints))[-_KEPT:]
        return [before, *frames]


def _phase(marks: Mapping[str, float]) -> str:
    return next((phase for phase in PHASES if phase not in marks), "release")


def _doing(phase: str) -> str:
    """A phase as messages name it."""
    return f"{phase} of a replacement"
