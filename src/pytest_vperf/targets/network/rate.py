"""Limiting how fast a link may be, both ways, with the kernel's token bucket filter (tc-tbf(8)).

Both filters stand in the switch's namespace, so that they are the same for containers and pods, and nothing within
a target changes: what goes to the target waits in a queue on the switch's port; what comes from it is redirected,
as it arrives, to an ``ifb`` link and waits in a queue there (a kernel has no queues for what arrives).

The rate is that of Ethernet frames, 14 bytes of header included, not of what a tool moves: of TCP over IPv4 with time
stamps and a 1500-byte MTU, 1448 of 1514 bytes are payload.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import TYPE_CHECKING

from pytest_vperf.quantity import Quantity, amount
from pytest_vperf.targets.base import TargetError
from pytest_vperf.targets.network.commands import ip, ip_json, tc

if TYPE_CHECKING:
    from pathlib import Path

#: The bucket holds what this time brings, and at least two full-sized segments. What it cannot hold is lost to a
#: sender that is not given a CPU for a moment; in a measurement of two seconds a full one is 1 % too much, at most.
BURST_TIME, LEAST_BURST = 20e-3, 3028
#: How long a packet may wait before it is dropped, in ms.
LATENCY = 50


@dataclass(frozen=True)
class Port:
    """The switch's side of one link.

    Attributes:
        namespace: the file of the switch's namespace.
        link: the name of the port.
        mirror: the name of its ``ifb``, for what arrives.
    """

    namespace: Path
    link: str
    mirror: str


def limit(port: Port, rate: str) -> Quantity:
    """Limit a link both ways; a second call replaces the first.

    Args:
        port: the switch's side of it.
        rate: bits per second, e.g. ``100 Mbit/s``.

    Returns:
        The rate as it was read back from the kernel, in bit/s; the two directions agree.

    Raises:
        QuantityError: the rate is none.
        TargetError: the kernel refuses, or says another rate than it was told.
    """
    wanted = round(amount("rate", rate, "bit/s", such_as="100 Mbit/s"))
    if wanted < 1000:
        raise TargetError(f"a link cannot be limited to {rate}: at least 1 kbit/s")
    lift(port)
    burst = max(LEAST_BURST, round(wanted / 8 * BURST_TIME))
    bucket = ("tbf", "rate", f"{wanted}bit", "burst", f"{burst}b", "latency", f"{LATENCY}ms")
    try:
        _set_up(port, bucket)
        found = read_back(port)
        # The kernel counts in whole bytes per second.
        if found is None or abs(found.value - wanted) > 8:
            raise TargetError(
                f"{port.link} was limited to {wanted} bit/s, but the kernel says {found}"
            )
    except BaseException:
        lift(port)  # a link that is limited one way only would be measured as one that is not
        raise
    return found


def _set_up(port: Port, bucket: tuple[str, ...]) -> None:
    inside = port.namespace
    ip("link", "add", port.mirror, "type", "ifb", namespace=inside)
    ip("link", "set", port.mirror, "up", namespace=inside)
    tc("qdisc", "add", "dev", port.mirror, "root", *bucket, namespace=inside)
    tc("qdisc", "add", "dev", port.link, "root", *bucket, namespace=inside)
    tc("qdisc", "add", "dev", port.link, "handle", "ffff:", "ingress", namespace=inside)
    everything = ("u32", "match", "u32", "0", "0")
    redirect = ("action", "mirred", "egress", "redirect", "dev", port.mirror)
    arriving = ("dev", port.link, "parent", "ffff:", "protocol", "all", *everything)
    tc("filter", "add", *arriving, *redirect, namespace=inside)


def read_back(port: Port) -> Quantity | None:
    """The rate in force, in bit/s, as the kernel says; ``None`` where there is no limit.

    Raises:
        TargetError: the two directions differ, or the kernel's answer is not understood.
    """
    rates = {link: _rate(port.namespace, link) for link in (port.link, port.mirror)}
    if len(set(rates.values())) != 1:
        raise TargetError(f"{port.link} is limited in one direction only, or differently: {rates}")
    value = rates[port.link]
    return None if value is None else Quantity(value, "bit/s")


def lift(port: Port) -> None:
    """Take the limit away, if there is one, or what there is of one.

    Raises:
        TargetError: the kernel refuses.
    """
    inside = port.namespace
    links = {entry["ifname"] for entry in ip_json("link", "show", namespace=inside)}
    if port.link in links:
        printed = tc("-j", "qdisc", "show", "dev", port.link, namespace=inside)
        for place in _places(printed):
            tc("qdisc", "delete", "dev", port.link, place, namespace=inside)
    if port.mirror in links:
        ip("link", "delete", port.mirror, namespace=inside)


def _places(printed: str) -> list[str]:
    """Where on a link there is a queue of ours, of what ``tc -j qdisc show`` prints."""
    try:
        kinds = {entry["kind"] for entry in json.loads(printed or "[]")}
    except (ValueError, KeyError, TypeError):
        raise TargetError(f"what tc says of a link is not understood: {printed[:200]}") from None
    return [place for kind, place in (("tbf", "root"), ("ingress", "ingress")) if kind in kinds]


def _rate(namespace: Path, link: str) -> float | None:
    links = {entry["ifname"] for entry in ip_json("link", "show", namespace=namespace)}
    if link not in links:
        return None
    return tbf_rate(tc("-j", "qdisc", "show", "dev", link, namespace=namespace))


def tbf_rate(printed: str) -> float | None:
    """The rate of the token bucket in what ``tc -j qdisc show`` prints, in bit/s; ``None`` without one.

    iproute2 prints the kernel's figure, which is in bytes per second (tc/q_tbf.c, ``print_opt``).

    Raises:
        TargetError: it is not understood.
    """
    try:
        rates = [
            entry["options"]["rate"] for entry in json.loads(printed) if entry.get("kind") == "tbf"
        ]
    except (ValueError, KeyError, TypeError, AttributeError):
        raise TargetError(f"what tc says of a limit is not understood: {printed[:200]}") from None
    if not rates:
        return None
    if len(rates) > 1 or isinstance(rates[0], bool) or not isinstance(rates[0], (int, float)):
        raise TargetError(f"what tc says of a limit is not understood: {printed[:200]}")
    return float(rates[0]) * 8
