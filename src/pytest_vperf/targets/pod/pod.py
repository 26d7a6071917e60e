"""A pod: a container image inside its own small virtual machine, started by QEMU directly.

Replacing a pod's container: another image is plugged in, its container takes the place of the one that runs.

The clock is that of a start: the host's monotonic one, from the request until the new container's process runs. The
image was made a disk before. Each border between phases is pushed by the machine:

    disk       request → the agent has found the new image's disk, after QEMU was told to plug it in
    stop       → the container before has ended, with all its processes (its exit status has come)
    container  → the new container's process has been executed

After the clock the new container is watched for as after a start, the agent says when nothing has the disk of the one
before open, and that disk is unplugged, so that the next replacement finds the machine as this one did.
"""

from __future__ import annotations

import time
from pathlib import Path
from typing import TYPE_CHECKING

from pytest_vperf.targets.agent.target import ENVIRONMENT, AgentTarget
from pytest_vperf.targets.agent.wire import Frame, Type, command_payload
from pytest_vperf.targets.base import (
    CannotConnect,
    CannotStart,
    Facts,
    TargetError,
    startup_quantity,
)
from pytest_vperf.targets.image import rootfs as images
from pytest_vperf.targets.image.rootfs import Rootfs
from pytest_vperf.targets.pod import qemu
from pytest_vperf.targets.pod.disk import build_disk, put_in_place
from pytest_vperf.targets.pod.machine import PHASES, settle, settling_time
from pytest_vperf.targets.pod.place import HERE
from pytest_vperf.targets.pod.qmp import QmpError, QmpTimeout

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence
    from pathlib import PurePath

    from pytest_vperf.quantity import Quantity
    from pytest_vperf.targets.base import Link, Usage
    from pytest_vperf.targets.disks import Disk
    from pytest_vperf.targets.pod.machine import Machine
    from pytest_vperf.targets.pod.place import Place


REPLACEMENT_PHASES = ("disk", "stop", "container")
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
            qemu.FIRST if not before else f"image{before}" for before in (number - 1, number)
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
            qemu.plug(machine.qmp, machine.config.machine, self._new, file)
            serial = qemu.serial(self._new).encode() + b"\0"
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
        return startup_quantity(began, marks, REPLACEMENT_PHASES)

    def _tidy(self, began: float, marks: Mapping[str, float], deadline: float) -> None:
        """Watch the new container for a moment, and take the old one's disk out."""
        machine, took = self._machine, marks["container"] - began
        watched = settling_time(took, marks["container"] - marks["disk"])
        self._watch(watched)
        while not self._released:
            if time.perf_counter() >= deadline:
                raise machine.late(_doing("release"))
            self._watch(_SLICE)
        qemu.unplug(machine.qmp, self._old, max(0.1, deadline - time.perf_counter()))
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
    return next((phase for phase in REPLACEMENT_PHASES if phase not in marks), "release")


def _doing(phase: str) -> str:
    """A phase as messages name it."""
    return f"{phase} of a replacement"


#: The container's process unless a test names one: it does nothing, for ever, in any image with coreutils.
IDLE = ("sleep", "infinity")
#: What a container's process finds in its environment before its own variables, as Docker has it.
DEFAULT_ENVIRONMENT = {**ENVIRONMENT, "HOSTNAME": "pod"}


class Pod(AgentTarget):
    """A running pod. Made by `pytest_vperf.targets.pod.pods.Pods`; a Target.

    Args:
        machine: has reached the end of its last phase.
        began: the request, on time.perf_counter()'s clock.
        details: for `facts`.
        rootfs: its image.
        disks: of the run, that it was started with.
        place: the machine that it was started on.

    Attributes:
        link: how it is on a network, if it is.
    """

    link: Link | None = None

    def __init__(
        self,
        machine: Machine,
        began: float,
        details: Mapping[str, str],
        rootfs: Rootfs,
        disks: tuple[Disk, ...] = (),
        place: Place = HERE,
    ) -> None:
        super().__init__(machine, rootfs, DEFAULT_ENVIRONMENT)
        self.disks = disks
        self._machine = machine
        self._began = began
        self._details = dict(details)
        self._place = place
        self._replacements = 0

    @property
    def pid(self) -> int:
        """The process ID of its QEMU."""
        return self._machine.pid

    @property
    def startup_time(self) -> Quantity:
        """From the request until the container's process ran, in ms, with its phases as parts.

        `pytest_vperf.targets.pod.machine` defines the phases.
        """
        return startup_quantity(self._began, self._machine.marks, PHASES)

    @property
    def console(self) -> str:
        """What its machine has printed on its serial port, the last 64 KiB."""
        return self._machine.console.decode("utf-8", "replace")

    def note(self, name: str, text: str) -> None:
        """Have `facts`, and so the record, say something more of it: before it is owned."""
        self._details[name] = text

    def replace(
        self,
        image: Rootfs | Path | str | None = None,
        *,
        command: Sequence[str] = IDLE,
        timeout: float = 120.0,
    ) -> Quantity:
        """Put a new container into the place of the one that runs; the machine is kept.

        What the container before had written, and all its processes, are gone then. Until the new image is plugged in
        an error changes nothing; one that comes later ends the machine, as after a start that failed.

        Args:
            image: the new container's; a path is one of a tar file, as ``docker export`` writes it. ``None``: the
                same one as before.
            command: the new container's process.
            timeout: seconds for all of it.

        Returns:
            the time from the request until the new container's process ran, in ms, with its phases as parts:
            `pytest_vperf.targets.pod.pod` defines them.

        Raises:
            CannotStart: the image is missing or no image; the machine was not started to have its container replaced;
                or the new container did not start, or ended at once.
            CannotConnect: the machine is gone.
            TimedOut: it took longer than ``timeout``.
            TargetError: a command runs in the container.
        """
        if not self._machine.config.replaceable:
            raise CannotStart(
                f"{self.name}: its container cannot be replaced, because the machine was started without a place to "
                "plug another image in: pods.start(replaceable=True)",
                target=self.name,
            )
        rootfs = self._rootfs if image is None else image
        if not isinstance(rootfs, Rootfs):
            rootfs = images.from_tar(Path(rootfs))
        disk = self._place.bring(build_disk(rootfs.path, rootfs.sha256), "image")
        number, argv = self._replacements + 1, tuple(command)
        try:
            replacement = Replacement(
                self._machine, number, disk, argv, DEFAULT_ENVIRONMENT, timeout
            )
        except ValueError as error:
            raise TargetError(f"{self.name}: {error}", target=self.name) from error
        if not self._lock.acquire(blocking=False):
            raise TargetError(
                f"{self.name}: its container cannot be replaced while a command runs in it",
                target=self.name,
            )
        try:
            took = replacement.perform()
        except BaseException:
            self._machine.close()
            raise
        finally:
            self._lock.release()
        self._replacements, self._rootfs = number, rootfs
        self._details |= {"rootfs": rootfs.name, "rootfs_sha256": rootfs.sha256}
        if self.disks:
            put_in_place(self, self.disks)
        return took

    def facts(self) -> Facts:
        """Versions, hashes and settings of this machine."""
        network = self.link.details() if self.link else {}
        return Facts("pod", self.name, {**self._details, **network})

    def usage(self) -> Usage:
        """CPU time and resident memory of the QEMU process.

        Raises:
            CannotConnect: QEMU is gone.
        """
        try:
            return self._machine.usage()
        except CannotConnect as error:
            raise CannotConnect(f"{self.name}: {error}", target=self.name) from None

    def close(self) -> None:
        """End the machine."""
        self._machine.close()
        for disk in self.disks:
            disk.give_back()
        if self.link is not None:
            self.link.close()
