"""A network of a run's own on a daemon's machine: a bridge that its machines and their host are on, and nobody else.

libvirt makes the bridge, so that it can be far away. It is ``open`` to libvirt (formatnetwork.html): no rule of a
firewall is made for it, no address is given out, no name is served.
"""

from __future__ import annotations

import threading
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any
from xml.etree import ElementTree

from pytest_vperf.machine.networks import link_name
from pytest_vperf.targets.base import TargetError, Unavailable
from pytest_vperf.targets.network import addresses
from pytest_vperf.targets.virt import address
from pytest_vperf.targets.virt.failures import AS_SYSTEM, failed, words
from pytest_vperf.targets.virt.metadata import add

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from ipaddress import IPv4Interface, IPv4Network

    from pytest_vperf.targets.base import Link
    from pytest_vperf.targets.virt.connection import Connection

#: How many subnets are tried: the daemon's machine may have one of ours already.
_TRIES = 8


@dataclass
class VirtualLink:
    """A link to such a network.

    Attributes:
        address: the target's.
        network: its subnet, e.g. ``198.18.4.0/24``, and which daemon's it is.
        how: for the record.
        unplug: gives the address back.
        monitor: the name that a link beside its port has, where that is mirrored.
    """

    address: str
    network: str
    how: str
    unplug: Callable[[], None] = field(default=lambda: None, repr=False)
    kind: str = "virtual"
    ports: Sequence[int] = ()
    monitor: str = ""

    @property
    def listen(self) -> str:
        """The address a server binds to."""
        return self.address

    def address_for(self, client: Link) -> str:
        """Where a client reaches this target.

        Raises:
            Unavailable: the client is on another network; there is no way between the two.
        """
        if isinstance(client, VirtualLink) and client.network == self.network:
            return self.address
        raise Unavailable(
            f"there is no way from a {client.kind} link to {self.address}: that is on a network of libvirt's with"
            " its host alone"
        )

    def details(self) -> dict[str, str]:
        """For the record."""
        return {"network": self.how, "address": self.address}

    def close(self) -> None:
        """Give the address back. Safe to repeat."""
        give_back, self.unplug = self.unplug, lambda: None
        give_back()


@dataclass(frozen=True)
class Plug:
    """A place for one machine's card.

    Attributes:
        bridge: that it is plugged into: a machine on a network by libvirt's name of it is also noted in files of
            libvirt's name service, whose folder need not be there.
        mac: the card's link-layer address.
        address: what the machine takes, with the length of the subnet.
        link: the machine's.
    """

    bridge: str
    mac: str
    address: str
    link: VirtualLink


class VirtualNetwork:
    """The network of one run on one daemon's machine.

    Args:
        connection: to the daemon.
        run: the run's ID.
        number: which of the run's it is.

    Attributes:
        host: the link of the daemon's machine.

    Raises:
        CannotStart: libvirt cannot make it.
        Unavailable: libvirt has no networks there.
    """

    def __init__(self, connection: Connection, run: str, number: int = 0) -> None:
        self._connection = connection
        self._run = run
        self.name = f"vperf-{run}-{number}"
        self._bridge = link_name(run, f"n{number}")
        self._lock = threading.Lock()
        where = f"libvirt at {connection.shown}"
        libvirt = connection.libvirt
        taken: list[IPv4Network] = []
        for attempt in range(_TRIES):
            subnet = addresses.free_subnet(taken, start=int(run, 16) + number)
            xml = network_xml(self.name, self._bridge, subnet)
            try:
                self._network: Any = connection.handle.networkCreateXML(xml)
                break
            except libvirt.libvirtError as error:
                if error.get_error_code() == libvirt.VIR_ERR_NO_SUPPORT:
                    raise Unavailable(f"{where} has no networks") from None
                if address.is_session(connection.uri) and "not permitted" in str(error):
                    reason = f"{where} could not make a network: {words(error)}"
                    raise Unavailable(reason, remedy=AS_SYSTEM) from None
                if attempt + 1 == _TRIES or "in use" not in str(error):
                    raise failed(error, "make a network", where) from None
                taken.append(subnet)
        self._addresses = addresses.Addresses(subnet)
        self._key = f"{subnet} at {connection.uri}"
        own = self._addresses.take()
        self.host = VirtualLink(str(own.ip), self._key, "bridge of libvirt's, the host's end")

    def plug(self, how: str) -> Plug:
        """A place for one machine.

        Args:
            how: what its card is, for the record.

        Raises:
            TargetError: all addresses are in use.
        """
        with self._lock:
            address = self._addresses.take()

        def give_back(taken: IPv4Interface = address) -> None:
            with self._lock:
                self._addresses.give_back(taken)

        number = int(address.ip) - int(address.network.network_address)
        link = VirtualLink(
            str(address.ip),
            self._key,
            f"bridge of libvirt's, {how}",
            give_back,
            monitor=link_name(self._run, f"m{number}"),
        )
        return Plug(self._bridge, addresses.mac(address), str(address), link)

    def close(self) -> None:
        """Remove it. Safe to repeat; quiet if the daemon is gone."""
        try:
            self._network.destroy()
        except self._connection.libvirt.libvirtError:
            return


def network_xml(name: str, bridge: str, subnet: IPv4Network) -> str:
    """The network as libvirt's XML (https://libvirt.org/formatnetwork.html)."""
    network = ElementTree.Element("network")
    add(network, "name", name)
    add(network, "forward", mode="open")
    add(network, "bridge", name=bridge, stp="off", delay="0")
    add(network, "dns", enable="no")
    first = next(subnet.hosts())
    add(network, "ip", address=str(first), prefix=str(subnet.prefixlen))
    return ElementTree.tostring(network, encoding="unicode")


def check_kind(network: object, target: str) -> VirtualNetwork:
    """Make sure that a network is one that libvirt's machines can be on.

    Raises:
        TargetError: it is another; says which one to take.
    """
    if isinstance(network, VirtualNetwork):
        return network
    raise TargetError(
        f"{target} cannot be plugged into {type(network).__name__}: start it with network=machines.network, where"
        " machines is the fixture that starts it",
        target=target,
    )
