"""Which addresses a run's network takes: a subnet that nothing on this machine uses or can reach."""

from __future__ import annotations

from ipaddress import IPv4Interface, IPv4Network
from typing import TYPE_CHECKING

from pytest_vperf.targets.base import Unavailable
from pytest_vperf.targets.network.commands import ip_json

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

#: Where subnets are looked for, in this order: the block reserved for benchmarks of network devices (RFC 2544,
#: appendix C.2.2), and then the one shared by carriers (RFC 6598), which some private networks use.
BLOCKS = (IPv4Network("198.18.0.0/15"), IPv4Network("100.64.0.0/10"))
#: Room for 253 targets, the switch's own address not counted.
PREFIX = 24


def free_subnet(taken: Iterable[IPv4Network], start: int = 0) -> IPv4Network:
    """The first subnet from ``start`` on that overlaps with nothing that is taken.

    Args:
        taken: the addresses and routes of this machine; a default route takes nothing.
        start: where to begin; runs at the same time begin at different places.

    Raises:
        Unavailable: everything is taken.
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


def taken() -> list[IPv4Network]:
    """What this machine's addresses and routes cover.

    Raises:
        TargetError: ``ip`` cannot be asked.
    """
    found = [
        IPv4Interface(f"{address['local']}/{address['prefixlen']}").network
        for link in ip_json("-4", "address", "show")
        for address in link.get("addr_info", ())
    ]
    for route in ip_json("-4", "route", "show", "table", "all"):
        destination = str(route.get("dst", "default"))
        if destination != "default":
            found.append(IPv4Network(destination, strict=False))
    return found


def hosts(subnet: IPv4Network) -> Iterator[str]:
    """The addresses of a subnet, one after the other, each given out once."""
    return (str(address) for address in subnet.hosts())
