"""A domU: a full machine on Xen, started through libvirt, spoken to over its console."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pytest_vperf.targets.agent.target import ENVIRONMENT, AgentTarget
from pytest_vperf.targets.base import Facts
from pytest_vperf.targets.phases import startup_quantity
from pytest_vperf.targets.virt.whole_machine import WholeMachine

if TYPE_CHECKING:
    from collections.abc import Mapping

    from pytest_vperf.quantity import Quantity
    from pytest_vperf.targets.base import Usage
    from pytest_vperf.targets.domu.boot import Booted
    from pytest_vperf.targets.image import Rootfs

#: The phases of a start, in order. Each ends where the next begins:
#:
#:     process    request → libvirt has had Xen build the machine, and lets it go
#:     kernel     → the kernel's first process has printed
#:     agent      → the agent has said that it takes orders: after the whole userspace, of a full machine
#:     container  → of a pod: the container's process has been executed
#:
#: All are dated when they reach this process, on its monotonic clock. There is no firmware: Xen loads the kernel.
PHASES = ("process", "kernel", "agent", "container")


class Domu(WholeMachine, AgentTarget):
    """A running machine on Xen. Made by `pytest_vperf.targets.domu.domus.Domus` and `XenPods`; a Target.

    Args:
        kind: ``domu`` or ``pod``.
        booted: the machine.
        details: for `facts`.
        rootfs: its image.
        environment: of every command.
    """

    def __init__(
        self,
        kind: str,
        booted: Booted,
        details: Mapping[str, str],
        rootfs: Rootfs,
        environment: Mapping[str, str] = ENVIRONMENT,
    ) -> None:
        super().__init__(booted.speaker, rootfs, environment)
        self._kind = kind
        self._booted = booted
        self._domain = booted.domain
        self._details = dict(details)

    @property
    def startup_time(self) -> Quantity:
        """From the request until it takes orders, or its container runs, in ms, with `PHASES` as parts."""
        return startup_quantity(self._booted.began, self._booted.marks, PHASES)

    def facts(self) -> Facts:
        """Versions, hashes and settings of this machine."""
        network = self.link.details() if self.link else {}
        return Facts(self._kind, self.name, {**self._details, **network})

    def usage(self) -> Usage:
        """CPU time and memory, as Xen accounts for them."""
        return self._domain.usage()
