"""Addresses for a run's network: a subnet that nothing on this machine uses or can reach."""

from __future__ import annotations

from collections import deque
from ipaddress import IPv4Interface, IPv4Network
from typing import TYPE_CHECKING

from pytest_vperf.targets.base import TargetError, Unavailable
from pytest_vperf.targets.network.commands import ip_json

if TYPE_CHECKING:
    from collections.abc import Iterable

    from pytest_vperf.targets.network.commands import Run

#: Blocks to take subnets from, in this order: the one reserved for benchmarks of network devices (RFC 2544, appendix
#: C.2.2), then the carriers' shared one (RFC 6598), which some private networks use.
BLOCKS = (IPv4Network("198.18.0.0/15"), IPv4Network("100.64.0.0/10"))
#: Enough for 253 targets beside the switch's own address.
PREFIX = 24


def free_subnet(taken: Iterable[IPv4Network], start: int = 0) -> IPv4Network:
    """The first subnet from ``start`` on that overlaps with none in use.

    Args:
        taken: networks of this machine's addresses and routes; a default route does not count.
        start: number of the subnet to begin with; concurrent runs begin at different ones.

    Raises:
        Unavailable: no subnet is free.
    """
    used = [network for network in taken if network.prefixlen]
    for block in BLOCKS:
        count = 1 << (PREFIX - block.prefixlen)
        for step in range(count):
            base = int(block.network_address) + ((start + step) % count << (32 - PREFIX))
            found = IPv4Network((base, PREFIX))
            if not any(found.overlaps(other) for other in used):
                return found
    blocks = " and ".join(map(str, BLOCKS))
    raise Unavailable(f"no free subnet for the run's own network: routes cover all of {blocks}")


def taken(run: Run | None = None) -> list[IPv4Network]:
    """The networks that a machine's addresses and routes cover.

    Args:
        run: runs programs there; ``None`` for this machine.

    Raises:
        TargetError: ``ip`` failed.
    """
    found = [
        IPv4Interface(f"{address['local']}/{address['prefixlen']}").network
        for link in ip_json("-4", "address", "show", run=run)
        for address in link.get("addr_info", ())
    ]
    for route in ip_json("-4", "route", "show", "table", "all", run=run):
        destination = str(route.get("dst", "default"))
        if destination != "default":
            found.append(IPv4Network(destination, strict=False))
    return found


class Addresses:
    """The addresses of a subnet, handed out in order.

    A returned address is reused after all others, so that caches which hold it expire first.

    Args:
        subnet: its first and last address are never handed out.
    """

    def __init__(self, subnet: IPv4Network) -> None:
        self.subnet = subnet
        self._free = deque(subnet.hosts())

    def take(self) -> IPv4Interface:
        """The next free address, with the prefix length.

        Raises:
            TargetError: all are in use.
        """
        try:
            found = self._free.popleft()
        except IndexError:
            raise TargetError(f"all addresses of {self.subnet} are in use by this run") from None
        return IPv4Interface((found, self.subnet.prefixlen))

    def give_back(self, address: IPv4Interface) -> None:
        """Return an address. Safe to repeat."""
        if address.ip not in self._free:
            self._free.append(address.ip)


def mac(address: IPv4Interface) -> str:
    """The MAC address for an IP address: always the same, so that no ARP table becomes stale.

    It is locally administered (the second-lowest bit of the first octet, IEEE 802).
    """
    return "02:76:70:66:" + ":".join(f"{byte:02x}" for byte in address.ip.packed[2:])
