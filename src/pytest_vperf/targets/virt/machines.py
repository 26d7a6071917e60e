"""What starting whole machines has in common, whatever the hypervisor: where they run, and what is there for them."""

from __future__ import annotations

import itertools
from typing import TYPE_CHECKING, Protocol

from pytest_vperf.targets.base import Target

if TYPE_CHECKING:
    from collections.abc import Callable

    from pytest_vperf.targets.base import Link
    from pytest_vperf.targets.disks import Disks
    from pytest_vperf.targets.image import Rootfs
    from pytest_vperf.targets.kernel.guest_kernel import GuestKernel
    from pytest_vperf.targets.scope import Scope
    from pytest_vperf.targets.virt.daemon import Daemon
    from pytest_vperf.targets.virt.machine_disks import MachineDisks
    from pytest_vperf.targets.virt.neighbour import Neighbour
    from pytest_vperf.targets.virt.virtual_network import MachineNetwork, VirtualNetwork


_numbers = itertools.count(1)


class MachineHost(Target, Protocol):
    """A machine that machines run on: it is put on their network."""

    @property
    def link(self) -> Link | None:
        """How it is on a network; ``None`` where it is on none."""
        ...

    @link.setter
    def link(self, link: Link) -> None: ...


class Machines:
    """Starts machines through one daemon; a kind of machine adds how.

    Args:
        daemon: gives the libvirt daemon; called when it is first wanted.
        rootfs: gives their image; likewise.
        kernel: gives their kernel; likewise.
        scope: owns the machines.
        timeout: seconds that one start may take.
    """

    def __init__(
        self,
        daemon: Callable[[], Daemon],
        rootfs: Callable[[], Rootfs],
        kernel: Callable[[], GuestKernel],
        scope: Scope,
        *,
        timeout: float = 180.0,
    ) -> None:
        self._daemon = daemon
        self._rootfs = rootfs
        self._kernel = kernel
        self._scope = scope
        self._timeout = timeout
        self._host: MachineHost | None = None

    @property
    def host(self) -> MachineHost:
        """The machine that they run on, with the same image's programs; the test's scope owns it.

        Raises:
            Unavailable: it cannot be reached, or there is none.
            CannotConnect: it does not let us in.
        """
        if self._host is None:
            self._host = self._scope.own(self._daemon().host(self._rootfs))
        return self._host

    @property
    def cpus(self) -> int:
        """How many processors their machine has, as its hypervisor says: a Xen host's own kernel may have fewer.

        Raises:
            CannotStart: it does not say.
        """
        from pytest_vperf.targets.virt.failures import failed

        connection = self._daemon().connection
        try:
            return int(connection.handle.getInfo()[2])
        except connection.libvirt.libvirtError as error:
            raise failed(
                error, "tell how many processors there are", f"libvirt at {connection.shown}"
            ) from None

    def memory_each(self, machines: int, most: str) -> str:
        """The memory that each of so many machines can have, at most ``most``, such as ``1 GiB``.

        Raises:
            Unavailable: there is too little.
        """
        from pytest_vperf.targets.many import memory_each

        return memory_each(self.host, machines, most)

    @property
    def disks(self) -> Disks | MachineDisks:
        """Makes disks where they run: ``start(disks=[made])``.

        Raises:
            Unavailable: their host cannot be reached, or there is none.
        """
        return self._daemon().disks(self.host, self._scope)

    @property
    def network(self) -> VirtualNetwork:
        """The network that they are started on: ``start(network=…)``; `host` is on it already.

        Raises:
            Unavailable: libvirt has no networks there.
            CannotStart: it cannot make one.
        """
        network = self._daemon().network()
        self.host.link = network.host
        return network

    def other_host(self, network: MachineNetwork | None = None) -> Neighbour:
        """Another host on a network of theirs, for the other end of a test; the test's scope owns it.

        Args:
            network: which one; ``None``: `network`.

        Raises:
            Unavailable: it cannot be made where they run.
        """
        from pytest_vperf.targets.virt.neighbour import Neighbour

        daemon = self._daemon()
        plug = (network or self.network).plug("a network namespace of the host's")
        try:
            made = Neighbour(self.host, plug, daemon.run.id, next(_numbers), daemon.mark)
        except BaseException:
            plug.link.close()
            raise
        return self._scope.own(made)
