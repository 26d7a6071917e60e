"""A network of a run's own on a daemon's machine: a bridge that its machines and their host are on, and nobody else.

libvirt makes the bridge, so that it can be far away. It is ``open`` to libvirt (formatnetwork.html): no rule of a
firewall is made for it, no address is given out, no name is served. A bridge of Open vSwitch's is made by
`pytest_vperf.targets.libvirt.network`.

A network of machines on a bridge of Open vSwitch's: made by commands where they run, which may be far away.

libvirt is told of the bridge with each card (formatdomain.html, ``virtualport``), puts the card's port on it, and
takes it away again. The host's end is the bridge's own port.

What a killed run leaves on this machine is found by the bridge's name and labels (`pytest_vperf.machine.leftovers`).
On another machine a command waits for the end of the connection and takes it away; should that fail, the next run's
network there does.
"""

from __future__ import annotations

import contextlib
import threading
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, TypeVar
from xml.etree import ElementTree

from pytest_vperf.machine.networks import NAMESPACES, link_name, namespace_name
from pytest_vperf.targets.base import TargetError, Unavailable
from pytest_vperf.targets.libvirt import address
from pytest_vperf.targets.libvirt.connection import AS_SYSTEM, failed, words
from pytest_vperf.targets.libvirt.storage import add, metadata
from pytest_vperf.targets.network import addresses, commands, open_vswitch
from pytest_vperf.targets.remote.connection import AtEnd
from pytest_vperf.targets.remote.ssh import SshHost

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence
    from ipaddress import IPv4Interface, IPv4Network

    from pytest_vperf.machine.runs import Run
    from pytest_vperf.targets.base import Link, Target
    from pytest_vperf.targets.libvirt.connection import Connection


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
        more: for the record: what the bridge is.
    """

    address: str
    network: str
    how: str
    unplug: Callable[[], None] = field(default=lambda: None, repr=False)
    kind: str = "virtual"
    ports: Sequence[int] = ()
    monitor: str = ""
    more: Mapping[str, str] = field(default_factory=dict)

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
            f"there is no route from a {client.kind} link to {self.address}: that is on a network of libvirt's with"
            " its host alone"
        )

    def details(self) -> dict[str, str]:
        """For the record."""
        return {"network": self.how, "address": self.address, **self.more}

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
        switch: ``openvswitch`` where the bridge is Open vSwitch's, as libvirt calls it.
        offloads: whether a card may leave checksums, and taking long packets apart, to what is behind it.
    """

    bridge: str
    mac: str
    address: str
    link: VirtualLink
    switch: str = ""
    offloads: bool = True


class MachineNetwork:
    """A bridge that machines and their host are on, whoever made it: its addresses, and places for cards.

    Args:
        run: the run's ID.
        bridge: the bridge's name.
        subnet: its addresses.
        uri: the daemon's, on whose machine it is.
        whose: the bridge is, for records.

    Attributes:
        host: the link of the daemon's machine.
        own: the address that the daemon's machine has, with the length of the subnet.
    """

    #: What the names of links beside ports begin with: two networks may be mirrored at once.
    _monitor = "m"

    def __init__(
        self,
        run: str,
        bridge: str,
        subnet: IPv4Network,
        uri: str,
        whose: str,
        *,
        switch: str = "",
        offloads: bool = True,
        more: Mapping[str, str] | None = None,
    ) -> None:
        self._run, self._bridge, self._whose = run, bridge, whose
        self._switch, self._offloads, self._more = switch, offloads, dict(more or {})
        self._lock = threading.Lock()
        self._addresses = addresses.Addresses(subnet)
        self._key = f"{subnet} at {uri}"
        self.own = self._addresses.take()
        how = f"bridge of {whose}, the host's end"
        self.host = VirtualLink(str(self.own.ip), self._key, how, more=self._more)

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
            f"bridge of {self._whose}, {how}",
            give_back,
            monitor=link_name(self._run, f"{self._monitor}{number}"),
            more=self._more,
        )
        mac = addresses.mac(address)
        return Plug(self._bridge, mac, str(address), link, self._switch, self._offloads)


class VirtualNetwork(MachineNetwork):
    """The network of one run on one daemon's machine, a bridge of libvirt's.

    Args:
        connection: to the daemon.
        run: the run's ID.
        number: which of the run's it is.
        labels: of the run, by which what is left of it is known.

    Raises:
        CannotStart: libvirt cannot make it.
        Unavailable: libvirt has no networks there.
    """

    def __init__(
        self,
        connection: Connection,
        run: str,
        number: int = 0,
        *,
        labels: Mapping[str, str] | None = None,
    ) -> None:
        self._connection = connection
        self.name = f"vperf-{run}-{number}"
        bridge = link_name(run, f"n{number}")
        where = f"libvirt at {connection.shown}"
        libvirt = connection.libvirt
        taken: list[IPv4Network] = []
        for attempt in range(_TRIES):
            subnet = addresses.free_subnet(taken, start=int(run, 16) + number)
            xml = network_xml(self.name, bridge, subnet, labels or {})
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
        super().__init__(run, bridge, subnet, connection.uri, "libvirt's")

    def close(self) -> None:
        """Remove it. Safe to repeat; quiet if the daemon is gone."""
        try:
            self._network.destroy()
        except self._connection.libvirt.libvirtError:
            return


def network_xml(name: str, bridge: str, subnet: IPv4Network, labels: Mapping[str, str]) -> str:
    """The network as libvirt's XML (https://libvirt.org/formatnetwork.html)."""
    network = ElementTree.Element("network")
    add(network, "name", name)
    if labels:
        network.append(metadata(labels))
    add(network, "forward", mode="open")
    add(network, "bridge", name=bridge, stp="off", delay="0")
    add(network, "dns", enable="no")
    first = next(subnet.hosts())
    add(network, "ip", address=str(first), prefix=str(subnet.prefixlen))
    return ElementTree.tostring(network, encoding="unicode")


_Network = TypeVar("_Network", bound=MachineNetwork)


def check_kind(network: object, target: str, kind: type[_Network]) -> _Network:
    """Make sure that a network is one that libvirt's machines can be on.

    Args:
        network: that was given.
        target: that was to be on it.
        kind: what it has to be.

    Raises:
        TargetError: it is another; says which one to take.
    """
    if isinstance(network, kind):
        return network
    raise TargetError(
        f"{target} cannot be plugged into {type(network).__name__}: start it with network=machines.network, where"
        " machines is the fixture that starts it",
        target=target,
    )


#: The bridge with its ports, links beside ports, other hosts. Words: the bridge, and how the others' paths begin.
_CLEAN = """
PATH=$PATH:/usr/sbin:/sbin
ovs-vsctl --timeout=10 -- --if-exists del-br "$1"
for link in "$2"*; do ip link delete "${link##*/}"; done
for space in "$3"*; do ip netns delete "${space##*/}"; done
"""


class OvsNetwork(MachineNetwork):
    """The network of one run on the machine of a daemon, a bridge of Open vSwitch's.

    Args:
        host: that machine.
        run: whose network it is.
        uri: the daemon's.
        number: which of the run's it is.

    Attributes:
        bridge: the bridge.

    Raises:
        Unavailable: there is no Open vSwitch that answers; says what mends it.
        TargetError: it, or the machine's kernel, refuses.
        CannotConnect: the machine is gone.
    """

    _monitor = "w"

    def __init__(self, host: Target, run: Run, uri: str, number: int = 0) -> None:
        self._there = commands.on(host)
        self._name = link_name(run.id, f"n{number}")
        self._at_end: AtEnd | None = None
        try:
            subnet = addresses.free_subnet(
                addresses.taken(self._there), start=int(run.id, 16) + number
            )
            if isinstance(host, SshHost):
                self._at_end = AtEnd(host.connection, _cleaning(self._name, run.id))
            self.bridge = open_vswitch.make(self._there, self._name, run.labels)
            # What libvirt's machines send comes as it left them. The kernel's datapath does what they left undone;
            # ovs-vswitchd's own reads and writes whole packets, and does not (Open vSwitch, 3.1).
            super().__init__(
                run.id,
                self._name,
                subnet,
                uri,
                "Open vSwitch's",
                switch="openvswitch",
                offloads=self.bridge.datapath == open_vswitch.SYSTEM,
                more=self.bridge.details,
            )
            self._join_host()
        except BaseException:
            self.close()
            raise

    def _join_host(self) -> None:
        # Else the kernel looks for IPv6 neighbours, which a mirror would count. It may have no IPv6.
        with contextlib.suppress(TargetError):
            self._there("ip", "link", "set", self._name, "addrgenmode", "none")
        self._there("ip", "address", "add", str(self.own), "dev", self._name)
        self._there("ip", "link", "set", self._name, "up")

    def close(self) -> None:
        """Remove it with all its ports and mirrors. Safe to repeat; quiet if the machine is gone."""
        open_vswitch.remove(self._there, self._name)
        if self._at_end is not None:
            self._at_end.close()


def _cleaning(bridge: str, run: str) -> list[str]:
    """The command that takes away what a killed run left on a machine, libvirt's part apart."""
    links = f"/sys/class/net/{link_name(run, 'w')}"
    spaces = str(NAMESPACES / namespace_name(run, "other"))
    return ["sh", "-c", _CLEAN, "sh", bridge, links, spaces]
