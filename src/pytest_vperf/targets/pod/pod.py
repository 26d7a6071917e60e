"""A pod: a container image inside its own small virtual machine, started by QEMU directly."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from pytest_vperf.targets import image as images
from pytest_vperf.targets.agent.target import ENVIRONMENT, AgentTarget
from pytest_vperf.targets.base import CannotConnect, CannotStart, Facts, TargetError
from pytest_vperf.targets.image import Rootfs
from pytest_vperf.targets.phases import startup_quantity
from pytest_vperf.targets.pod.disk import build_disk
from pytest_vperf.targets.pod.disks import put_in_place
from pytest_vperf.targets.pod.machine import PHASES
from pytest_vperf.targets.pod.place import HERE
from pytest_vperf.targets.pod.replacement import Replacement

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from types import TracebackType

    from pytest_vperf.quantity import Quantity
    from pytest_vperf.targets.base import Link, Usage
    from pytest_vperf.targets.disks import Disk
    from pytest_vperf.targets.pod.machine import Machine
    from pytest_vperf.targets.pod.place import Place

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
            `pytest_vperf.targets.pod.replacement` defines them.

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

    def __enter__(self) -> Pod:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()
