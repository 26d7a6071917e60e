"""A pod: a container image inside its own small virtual machine, started by QEMU directly."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pytest_vperf.targets.agent.target import ENVIRONMENT, AgentTarget
from pytest_vperf.targets.base import CannotConnect, Facts
from pytest_vperf.targets.phases import startup_quantity
from pytest_vperf.targets.pod.machine import PHASES

if TYPE_CHECKING:
    from collections.abc import Mapping
    from types import TracebackType

    from pytest_vperf.quantity import Quantity
    from pytest_vperf.targets.base import Link, Usage
    from pytest_vperf.targets.disks import Disk
    from pytest_vperf.targets.image import Rootfs
    from pytest_vperf.targets.pod.machine import Machine

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
    ) -> None:
        super().__init__(machine, rootfs, DEFAULT_ENVIRONMENT)
        self.disks = disks
        self._machine = machine
        self._began = began
        self._details = dict(details)

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
