"""The run's own network: a bridge in a network namespace, and what is plugged into it.

The host's own network is touched in one place: one link with one address in a subnet that nothing else uses. There is
no firewall rule, no forwarding and no default route: what is on the switch reaches what is on the switch.
"""

from __future__ import annotations

import contextlib
import itertools
import os
import threading
from pathlib import Path
from typing import TYPE_CHECKING

from pytest_vperf.machine.networks import link_name, namespace_name
from pytest_vperf.targets.base import TargetError
from pytest_vperf.targets.network import addresses
from pytest_vperf.targets.network.card import BACKEND, Card, need_vhost
from pytest_vperf.targets.network.commands import ip
from pytest_vperf.targets.network.link import SwitchLink
from pytest_vperf.targets.network.namespaces import Namespace
from pytest_vperf.targets.network.rate import Port
from pytest_vperf.targets.network.tap import open_tap

if TYPE_CHECKING:
    from pytest_vperf.machine.runs import Run

BRIDGE = "br0"


class Switch:
    """A bridge in a namespace of its own, joined to the host by one link.

    Attributes:
        subnet: its addresses, e.g. ``198.18.4.0/24``.
        host: the host's link to it.
    """

    def __init__(self, run: Run) -> None:
        """Make it.

        Raises:
            Unavailable: this user may not make networks, or no subnet is free.
            TargetError: the kernel refuses.
        """
        self._run = run.id
        self._numbers = itertools.count(1)
        self._lock = threading.Lock()
        self._hosts: list[Namespace] = []
        self._namespace = Namespace.create(namespace_name(run.id, "switch"))
        try:
            inside = self._namespace.path
            # No spanning tree and no delay: a port passes frames as soon as it is there. No snooping:
            # there is no multicast querier to learn from.
            options = ("stp_state", "0", "forward_delay", "0", "mcast_snooping", "0")
            ip("link", "add", BRIDGE, "type", "bridge", *options, namespace=inside)
            ip("link", "set", BRIDGE, "up", namespace=inside)
            chosen = addresses.free_subnet(addresses.taken(), start=int(run.id, 16))
            self.subnet = str(chosen)
            self._free = addresses.hosts(chosen)
            self.host = self._join(Path(f"/proc/{os.getpid()}/ns/net"), link_name(run.id, "h"))
        except BaseException:
            self.close()
            raise

    def join(self, namespace: Path, *, note: str = "") -> SwitchLink:
        """Join a network namespace by a pair of links; there the link is called ``eth0``.

        Args:
            namespace: its file, e.g. ``/proc/PID/ns/net``.
            note: for the record.

        Raises:
            TargetError: the kernel refuses; or all addresses are given out.
        """
        return self._join(namespace, "eth0", note)

    def _join(self, namespace: Path, name: str, note: str = "") -> SwitchLink:
        with self._lock:
            number, address = next(self._numbers), self._address()
        port = link_name(self._run, f"p{number}")
        inside = self._namespace.path
        draft = link_name(self._run, f"d{number}")
        # Made whole in the switch's namespace, then one end is handed over: a name is taken in no other meanwhile.
        ip("link", "add", port, "type", "veth", "peer", "name", draft, namespace=inside)
        try:
            ip("link", "set", draft, "address", _mac(number), namespace=inside)
            ip("link", "set", port, "master", BRIDGE, "up", namespace=inside)
            ip("link", "set", draft, "netns", str(namespace), "name", name, namespace=inside)
            length = self.subnet.partition("/")[2]
            ip("address", "add", f"{address}/{length}", "dev", name, namespace=namespace)
            ip("link", "set", "lo", "up", namespace=namespace)
            ip("link", "set", name, "up", namespace=namespace)
        except BaseException:
            self._remove(port)
            raise
        return self._link("veth", address, port, number, note)

    def card(self, *, vhost: bool = False) -> Card:
        """A network card for a virtual machine, with a tap that is plugged in.

        Args:
            vhost: the kernel moves the packets by itself (vhost-net), and not QEMU.

        Raises:
            Unavailable: the kernel has no taps, or no vhost-net.
            TargetError: the kernel refuses; or all addresses are given out.
        """
        if vhost:
            need_vhost()
        with self._lock:
            number, address = next(self._numbers), self._address()
        name = link_name(self._run, f"t{number}")
        descriptor = open_tap(self._namespace, name)
        try:
            ip("link", "set", name, "master", BRIDGE, "up", namespace=self._namespace.path)
        except BaseException:
            os.close(descriptor)
            raise
        how = "vhost-net moves the packets" if vhost else "QEMU moves the packets"
        length = self.subnet.partition("/")[2]
        return Card(
            f"tap,id={BACKEND},fd={descriptor},vhost={'on' if vhost else 'off'}",
            _mac(number),
            f"{address}/{length}",
            self._link("tap", address, name, number, how),
            descriptor,
        )

    def new_host(self) -> tuple[Namespace, SwitchLink]:
        """Another host: a namespace of its own, joined to the switch; it goes with the switch.

        Raises:
            TargetError: the kernel refuses; or all addresses are given out.
        """
        made = Namespace.create(namespace_name(self._run, f"host{len(self._hosts) + 1}"))
        self._hosts.append(made)
        return made, self.join(made.path)

    def close(self) -> None:
        """Remove it with everything plugged in. Safe to repeat.

        Raises:
            TargetError: the kernel refuses.
        """
        with contextlib.suppress(TargetError):  # not made, or gone
            ip("link", "delete", link_name(self._run, "h"))
        for namespace in [*self._hosts, self._namespace]:
            namespace.delete()
        self._hosts.clear()

    def _link(self, kind: str, address: str, port: str, number: int, note: str) -> SwitchLink:
        mirror = link_name(self._run, f"i{number}")
        return SwitchLink(
            kind,
            address,
            self.subnet,
            Port(self._namespace.path, port, mirror),
            note,
            unplug=lambda: self._unplug(port, mirror),
        )

    def _unplug(self, port: str, mirror: str) -> None:
        for name in (port, mirror):
            self._remove(name)

    def _remove(self, name: str) -> None:
        # A pair goes with either end, a tap with its last descriptor: often it is gone already.
        with contextlib.suppress(TargetError):
            ip("link", "delete", name, namespace=self._namespace.path)

    def _address(self) -> str:
        found = next(self._free, None)
        if found is None:
            raise TargetError(f"all addresses of {self.subnet} have been given out in this run")
        return found


def _mac(number: int) -> str:
    """A link-layer address, locally administered (the second-lowest bit of the first octet, IEEE 802)."""
    return f"02:76:70:66:{number >> 8:02x}:{number & 0xFF:02x}"
