"""A pod: a container image in a small virtual machine of its own, its start, and the replacement of its container.

A start is timed from the request until the container's process runs. A replacement plugs in another image and starts
its container in place of the running one. It is timed like a start, by the host's monotonic clock, from the request
until the new container's process runs; the image's disk is built beforehand. The machine reports each boundary
between phases:

    disk       request → QEMU has plugged in the new image's disk, and the agent has found it
    stop       → the old container has ended, with all its processes (its exit status has arrived)
    container  → the new container's process has been executed

Then, no longer timed, the new container is watched as after a start, the agent reports that nothing has the old disk
open any more, and that disk is unplugged: the machine is ready for the next replacement.
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
from pytest_vperf.targets.limits import Limits
from pytest_vperf.targets.pod import qemu
from pytest_vperf.targets.pod.disk import build_disk, put_in_place
from pytest_vperf.targets.pod.machine import PHASES, Machine, settle, settling_time
from pytest_vperf.targets.pod.place import HERE
from pytest_vperf.targets.pod.qmp import QmpError, QmpTimeout

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence
    from pathlib import PurePath

    from pytest_vperf.machine.runs import Run
    from pytest_vperf.quantity import Quantity
    from pytest_vperf.targets.base import Link, Usage
    from pytest_vperf.targets.disks import Disk
    from pytest_vperf.targets.pod.assets import Assets
    from pytest_vperf.targets.pod.config import MachineConfig
    from pytest_vperf.targets.pod.place import Place


REPLACEMENT_PHASES = ("disk", "stop", "container")
_CONTAINER = 1  # its stream
#: Seconds to wait for the agent to release the old disk before the time limit is checked again.
_SLICE = 0.1
#: Bytes kept of the end of the new container's output, for the error if it ends.
_KEPT = 4096


class Replacement:
    """One replacement in a machine.

    Args:
        machine: started with an image that can be unplugged.
        number: counts the machine's replacements from 1, and names the images.
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
        """Replace the container; return the time in ms, broken down by phases. After an error the machine is
        unusable.

        Raises:
            CannotConnect: the machine had already ended.
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
            # Only once the image is there: a failure until now leaves the old container untouched.
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
        """Watch the new container for a moment, and unplug the old one's disk."""
        machine, took = self._machine, marks["container"] - began
        watched = settling_time(took, marks["container"] - marks["disk"])
        self._watch(watched)
        while not self._released:
            if time.perf_counter() >= deadline:
                raise machine.late(_doing("release"))
            self._watch(_SLICE)
        qemu.unplug(machine.qmp, self._old, max(0.1, deadline - time.perf_counter()))
        # That took another moment: the container may have ended meanwhile, which is "at once", too.
        self._watch(0.0)

    def _watch(self, seconds: float) -> None:
        self._before = self._said
        settle(self._frames, self._machine.name, self._command, seconds)

    def _frames(self, deadline: float) -> Iterable[Frame]:
        frames = self._machine.next_frames(deadline)
        self._released = self._released or any(each.type is Type.RELEASED for each in frames)
        # It is watched in several passes: output from one may explain its end in another.
        before, self._before = Frame(Type.OUTPUT, _CONTAINER, self._before), b""
        prints = (each.payload for each in frames if each.type in (Type.OUTPUT, Type.ERRORS))
        self._said = (self._said + b"".join(prints))[-_KEPT:]
        return [before, *frames]


def _phase(marks: Mapping[str, float]) -> str:
    return next((phase for phase in REPLACEMENT_PHASES if phase not in marks), "release")


def _doing(phase: str) -> str:
    """The phase's name in messages."""
    return f"{phase} of a replacement"


#: The container's default command, which does nothing for ever and works in any image with coreutils.
IDLE = ("sleep", "infinity")
#: The default environment of a container's process, the same as Docker's.
DEFAULT_ENVIRONMENT = {**ENVIRONMENT, "HOSTNAME": "pod"}


class Pod(AgentTarget):
    """A running pod: a Target. Made by `pytest_vperf.targets.pod.pods.Pods`.

    Args:
        machine: fully started.
        began: the request, on time.perf_counter()'s clock.
        details: for `facts`.
        rootfs: its image.
        disks: the run's disks that it was started with.
        place: the machine that it was started on.

    Attributes:
        link: its link to a network, if any.
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
        """From the request until the container's process ran, in ms, broken down by phases.

        `pytest_vperf.targets.pod.machine` defines the phases.
        """
        return startup_quantity(self._began, self._machine.marks, PHASES)

    @property
    def console(self) -> str:
        """The last 64 KiB of its serial port's output."""
        return self._machine.console.decode("utf-8", "replace")

    def note(self, name: str, text: str) -> None:
        """Add an entry to `facts`, and so to the record; only before it is owned."""
        self._details[name] = text

    def replace(
        self,
        image: Rootfs | Path | str | None = None,
        *,
        command: Sequence[str] = IDLE,
        timeout: float = 120.0,
    ) -> Quantity:
        """Replace the running container with a new one; the machine is kept.

        The old container's processes and all that it wrote are gone. Errors before the new image is plugged in change
        nothing; later ones end the machine, as after a failed start.

        Args:
            image: the new container's; a path names a tar file, as ``docker export`` writes it. ``None`` for the same
                image.
            command: the new container's process.
            timeout: seconds for all of it.

        Returns:
            The time from the request until the new container's process ran, in ms, broken down by the phases that
            `pytest_vperf.targets.pod.pod` defines.

        Raises:
            CannotStart: the image is missing or invalid; the machine was not started as replaceable; or the new
                container did not start, or ended at once.
            CannotConnect: the machine is gone.
            TimedOut: it took longer than ``timeout``.
            TargetError: a command is running in the container.
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


def boot(
    assets: Assets,
    config: MachineConfig,
    firmware: str,
    run: Run,
    *,
    command: tuple[str, ...],
    timeout: float,
    why_accelerator: str = "",
    limits: Limits | None = None,
    disks: tuple[Disk, ...] = (),
) -> Pod:
    """Start a machine and the container in it; on an error, nothing is left running.

    Args:
        assets: prepared beforehand.
        config: the machine.
        firmware: the firmware's name.
        run: owns the process.
        command: the container's process.
        timeout: seconds for the whole start.
        limits: for QEMU with all its threads.
        disks: the run's disks, which ``config`` also lists.
        why_accelerator: how ``auto`` chose the accelerator, for the record; empty if it was requested by name.

    Raises:
        CannotStart: QEMU, the kernel or the container failed; with the end of the output of each.
        TimedOut: not ready within ``timeout``.
        ValueError: the command has a NUL character.
    """
    place = assets.place
    name = f"pod {config.accelerator} {firmware}{place.mark}"
    start = Frame(Type.START, 1, command_payload(command, dict(DEFAULT_ENVIRONMENT), "/"))
    details = assets.details(config, firmware)
    if why_accelerator:
        details["why_accelerator"] = why_accelerator
    group = place.group(run, limits or Limits(), name)
    if group is not None:
        details |= group.details
    lent: list[Disk] = []
    try:
        for disk in disks:
            disk.lend(name)
            lent.append(disk)
        launch = place.ready(assets.qemu, config, run, group)
        began = time.perf_counter()
        process = launch()
        try:
            machine = Machine(process, config, name)
        except BaseException:
            process.end()
            raise
    except BaseException:
        for disk in lent:
            disk.give_back()
        if group is not None:
            group.close()
        raise
    try:
        # Sent ahead: the socket holds the command until the agent opens its port, which saves a round trip.
        if config.replaceable:
            machine.wire.send(Frame(Type.IMAGE, 0, qemu.serial(qemu.FIRST).encode() + b"\0"))
        machine.wire.send(start)
        machine.go(timeout)
        deadline = began + timeout
        machine.await_frame(Type.READY, "agent", deadline)
        machine.await_frame(Type.RUNNING, "container", deadline)
        marks = machine.marks
        watched = settling_time(marks["container"] - began, marks["container"] - marks["agent"])
        settle(machine.next_frames, machine.name, command, watched)
        if group is not None:
            group.check_member(machine.pid)
        pod = Pod(machine, began, details, assets.rootfs, disks, place)
        if disks:
            put_in_place(pod, disks)
    except BaseException:
        machine.close()
        for disk in disks:
            disk.give_back()
        raise
    return pod
