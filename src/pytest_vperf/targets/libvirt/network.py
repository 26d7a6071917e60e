"""A run's own network on a daemon's machine: a bridge for its machines and their host alone.

A Linux bridge is made by libvirt, so that it works remotely too. Its forward mode is ``open`` (formatnetwork.html):
no firewall rules, no DHCP, no DNS.

A bridge of Open vSwitch is made by commands on the daemon's machine, which may be remote. libvirt is told of the
bridge with each card (formatdomain.html, ``virtualport``), and adds and removes the card's port. The host's end is
the bridge's own port.

On this machine the leftovers of a killed run are found by the bridge's name and labels
(`pytest_vperf.machine.leftovers`). On another machine a command waits for the connection to end and removes them; if
that fails, the next run's network there does.
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


#: How many subnets are tried: some may already be in use on the daemon's machine.
_TRIES = 8


@dataclass
class VirtualLink:
    """A link to a machines' network.

    Attributes:
        address: the target's.
        network: its subnet and daemon, e.g. ``198.18.4.0/24 at qemu:///system``.
        how: it is connected, for the record.
        unplug: returns the address.
        monitor: the name for a link that mirrors its port.
        more: about the bridge, for the record.
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
        """The address at which a client reaches this target.

        Raises:
            Unavailable: the client is on another network, without a route.
        """
        if isinstance(client, VirtualLink) and client.network == self.network:
            return self.address
        raise Unavailable(
            f"there is no route from a {client.kind} link to {self.address}: that is on a libvirt network which"
            " reaches only its host"
        )

    def details(self) -> dict[str, str]:
        """For the record."""
        return {"network": self.how, "address": self.address, **self.more}

    def close(self) -> None:
        """Return the address. Safe to repeat."""
        give_back, self.unplug = self.unplug, lambda: None
        give_back()


@dataclass(frozen=True)
class Plug:
    """A place for one machine's card.

    Attributes:
        bridge: to plug it into. Not libvirt's network name: libvirt would also note the machine in files of its name
            service, whose folder may be missing.
        mac: the card's MAC address.
        address: the machine's, with the prefix length.
        link: the machine's.
        switch: libvirt's name of the bridge's kind: ``openvswitch``, or empty for a Linux bridge.
        offloads: whether the card may leave checksums and segmentation to its backend.
    """

    bridge: str
    mac: str
    address: str
    link: VirtualLink
    switch: str = ""
    offloads: bool = True


class MachineNetwork:
    """A bridge for machines and their host, whoever made it: its addresses, and places for cards.

    Args:
        run: the run's ID.
        bridge: the bridge's name.
        subnet: its addresses.
        uri: the daemon's, on whose machine it is.
        whose: the bridge is, for records.

    Attributes:
        host: the link of the daemon's machine.
        own: the address of the daemon's machine, with the prefix length.
    """

    #: Prefix of mirror links' names, different for each kind: two networks may be mirrored at once.
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
            how: its kind of card, for the record.

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
    """A run's network on a daemon's machine: a bridge made by libvirt.

    Args:
        connection: to the daemon.
        run: the run's ID.
        number: its number within the run.
        labels: the run's, by which leftovers are recognised.

    Raises:
        CannotStart: libvirt cannot create it.
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
        """Remove it. Safe to repeat; silent if the daemon is gone."""
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
    """Make sure that a target's machine can be plugged into a network.

    Args:
        network: the network given.
        target: the target's name.
        kind: the required kind of network.

    Raises:
        TargetError: it is of another kind; says which one to use.
    """
    if isinstance(network, kind):
        return network
    raise TargetError(
        f"{target} cannot be plugged into {type(network).__name__}: start it with network=machines.network, where"
        " machines is the fixture that starts it",
        target=target,
    )


#: Removes the bridge with its ports, mirror links and other hosts. Arguments: bridge, path prefixes of the others.
_CLEAN = """
PATH=$PATH:/usr/sbin:/sbin
ovs-vsctl --timeout=10 -- --if-exists del-br "$1"
for link in "$2"*; do ip link delete "${link##*/}"; done
for space in "$3"*; do ip netns delete "${space##*/}"; done
"""


class OvsNetwork(MachineNetwork):
    """A run's network on a daemon's machine: a bridge of Open vSwitch.

    Args:
        host: the daemon's machine.
        run: the owner.
        uri: the daemon's.
        number: its number within the run.

    Attributes:
        bridge: the bridge.

    Raises:
        Unavailable: no Open vSwitch answers; with a remedy.
        TargetError: Open vSwitch or the kernel refuses.
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
            # Packets arrive as the machines sent them. The kernel's datapath completes offloaded checksums and
            # segmentation; the userspace datapath handles whole packets and does not (Open vSwitch 3.1).
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
        # Otherwise the kernel looks for IPv6 neighbours, which a mirror would count. Fails on a kernel without IPv6.
        with contextlib.suppress(TargetError):
            self._there("ip", "link", "set", self._name, "addrgenmode", "none")
        self._there("ip", "address", "add", str(self.own), "dev", self._name)
        self._there("ip", "link", "set", self._name, "up")

    def close(self) -> None:
        """Remove it with all its ports and mirrors. Safe to repeat; silent if the machine is gone."""
        open_vswitch.remove(self._there, self._name)
        if self._at_end is not None:
            self._at_end.close()


def _cleaning(bridge: str, run: str) -> list[str]:
    """The command that removes what a killed run left on a machine, apart from libvirt's part."""
    links = f"/sys/class/net/{link_name(run, 'w')}"
    spaces = str(NAMESPACES / namespace_name(run, "other"))
    return ["sh", "-c", _CLEAN, "sh", bridge, links, spaces]
