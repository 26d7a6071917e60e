"""Links of targets to networks: their addresses, facts and rate limits.

A target can also be both ends of a test, over its loopback device: without card, bridge or host in between, this
measures the system's own network code.

A link's rate is limited both ways by the kernel's token bucket filter (tc-tbf(8)). Both filters are in the switch's
namespace, so that they are the same for containers and pods and change nothing within a target. Traffic to the target
queues on the switch's port; traffic from it is redirected to an ``ifb`` link and queues there, since the kernel has
no ingress queues.

The rate is that of Ethernet frames, including 14 bytes of header, not of payload: in TCP over IPv4 with timestamps
and a 1500-byte MTU, 1448 of 1514 bytes are payload.
"""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Protocol, TypeVar

from pytest_vperf.quantity import Quantity, amount
from pytest_vperf.targets.base import TargetError, Unavailable
from pytest_vperf.targets.network.commands import ip, ip_json, tc

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from pathlib import Path

    from pytest_vperf.targets.base import Completed, Link


if TYPE_CHECKING:

    class _Linked(Protocol):
        link: Link | None

        @property
        def name(self) -> str: ...

        def run(self, argv: Sequence[str], *, timeout: float, check: bool) -> Completed: ...

    T = TypeVar("T", bound=_Linked)

#: A second address for the loopback device, from RFC 5737's documentation range, which no network uses. With no
#: address but 127.0.0.1, programs that look up addresses with AI_ADDRCONFIG (getaddrinfo(3)), as netperf does, are
#: refused even numeric ones.
ADDRESS = "192.0.2.1"


@dataclass(frozen=True, eq=False)
class LoopbackLink:
    """The loopback device of one target; every target has its own.

    Attributes:
        ports: empty: a server may use any port.
    """

    kind: str = "loopback"
    ports: Sequence[int] = ()

    @property
    def listen(self) -> str:
        """The address a server binds to."""
        return ADDRESS

    def address_for(self, client: Link) -> str:
        """The address at which a client in the same target reaches a server.

        Raises:
            Unavailable: the client is another target.
        """
        if client is self:
            return ADDRESS
        raise Unavailable(
            f"there is no route from a {client.kind} link to the loopback device of another target"
        )

    def details(self) -> dict[str, str]:
        """For the record."""
        return {"network": "its own loopback device", "address": ADDRESS}

    def close(self) -> None:
        """Nothing was made."""


def on_loopback(target: T) -> T:
    """The target, made ready to be both ends of a network test; an existing link is kept.

    Raises:
        Unavailable: its loopback device cannot be given an address; with the reason.
    """
    if target.link is None:
        done = target.run(
            ["ip", "address", "replace", f"{ADDRESS}/32", "dev", "lo"], timeout=30.0, check=False
        )
        if done.returncode:
            said = done.stderr.decode("utf-8", "replace").strip()[-200:] or "no reason"
            raise Unavailable(
                f"the loopback device of {target.name} cannot be given an address: {said}",
                target=target.name,
            )
        target.link = LoopbackLink()
    return target


#: The bucket holds the tokens of this time, in seconds, and at least the bytes of two full-sized segments. With a
#: smaller bucket, a sender without a CPU for a moment would lose throughput; with this one, a measurement of two
#: seconds comes out at most 1 % too high.
BURST_TIME, LEAST_BURST = 20e-3, 3028
#: Longest time in ms that a packet may wait before it is dropped.
LATENCY = 50


@dataclass(frozen=True)
class Port:
    """The switch's side of one link.

    Attributes:
        namespace: the file of the switch's namespace.
        link: the name of the port.
        mirror: the name of its ``ifb``, for traffic from the target.
    """

    namespace: Path
    link: str
    mirror: str


def limit_rate(port: Port, rate: str) -> Quantity:
    """Limit a link both ways; a second call replaces the first.

    Args:
        port: the switch's side of it.
        rate: bits per second, e.g. ``100 Mbit/s``.

    Returns:
        The rate in bit/s, as read back from the kernel; the same in both directions.

    Raises:
        QuantityError: ``rate`` is not a rate.
        TargetError: the kernel refuses, or reports a different rate.
    """
    wanted = round(amount("rate", rate, "bit/s", such_as="100 Mbit/s"))
    if wanted < 1000:
        raise TargetError(f"a link cannot be limited to {rate}: at least 1 kbit/s")
    lift_rate_limit(port)
    burst = max(LEAST_BURST, round(wanted / 8 * BURST_TIME))
    bucket = ("tbf", "rate", f"{wanted}bit", "burst", f"{burst}b", "latency", f"{LATENCY}ms")
    try:
        _set_up(port, bucket)
        found = rate_in_force(port)
        # The kernel counts in whole bytes per second.
        if found is None or abs(found.value - wanted) > 8:
            raise TargetError(
                f"{port.link} was limited to {wanted} bit/s, but the kernel says {found}"
            )
    except BaseException:
        lift_rate_limit(
            port
        )  # a link that is limited one way only would be measured as one that is not
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


def rate_in_force(port: Port) -> Quantity | None:
    """The rate limit in force, in bit/s, as reported by the kernel; ``None`` without a limit.

    Raises:
        TargetError: the two directions differ, or the kernel's answer is not understood.
    """
    rates = {link: _rate(port.namespace, link) for link in (port.link, port.mirror)}
    if len(set(rates.values())) != 1:
        raise TargetError(f"{port.link} is limited in one direction only, or differently: {rates}")
    value = rates[port.link]
    return None if value is None else Quantity(value, "bit/s")


def lift_rate_limit(port: Port) -> None:
    """Remove the limit, even an incomplete one, if there is any.

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
    """The places on a link that have a queue of ours, from the output of ``tc -j qdisc show``."""
    try:
        kinds = {entry["kind"] for entry in json.loads(printed or "[]")}
    except (ValueError, KeyError, TypeError):
        raise TargetError(f"tc's output about a link is not understood: {printed[:200]}") from None
    return [place for kind, place in (("tbf", "root"), ("ingress", "ingress")) if kind in kinds]


def _rate(namespace: Path, link: str) -> float | None:
    links = {entry["ifname"] for entry in ip_json("link", "show", namespace=namespace)}
    if link not in links:
        return None
    return tbf_rate(tc("-j", "qdisc", "show", "dev", link, namespace=namespace))


def tbf_rate(printed: str) -> float | None:
    """The rate in bit/s of the token bucket in the output of ``tc -j qdisc show``; ``None`` without a bucket.

    iproute2 prints the kernel's figure, which is in bytes per second (tc/q_tbf.c, ``print_opt``).

    Raises:
        TargetError: the output is not understood.
    """
    try:
        rates = [
            entry["options"]["rate"] for entry in json.loads(printed) if entry.get("kind") == "tbf"
        ]
    except (ValueError, KeyError, TypeError, AttributeError):
        raise TargetError(f"tc's output about a limit is not understood: {printed[:200]}") from None
    if not rates:
        return None
    if len(rates) > 1 or isinstance(rates[0], bool) or not isinstance(rates[0], (int, float)):
        raise TargetError(f"tc's output about a limit is not understood: {printed[:200]}")
    return float(rates[0]) * 8


@dataclass(frozen=True)
class RouteLink:
    """A link over this machine's existing networks, between it and a machine reached by SSH.

    Attributes:
        address: the target's, as seen by the other machine.
        ports: empty: a server may use any port that the two machines' own firewalls let through.
    """

    address: str
    kind: str = "route"
    ports: Sequence[int] = ()

    @property
    def listen(self) -> str:
        """The address a server binds to."""
        return self.address

    def address_for(self, client: Link) -> str:
        """The address at which a client reaches this target.

        Raises:
            Unavailable: the client is on the run's own network only.
        """
        if client.kind == self.kind:
            return self.address
        raise Unavailable(
            f"there is no route from a {client.kind} link to {self.address}: the run's own network is joined to"
            " no other, and no firewall or forwarding rule is made"
        )

    def details(self) -> dict[str, str]:
        """For the record."""
        return {"network": "this machine's own networks and routes", "address": self.address}

    def close(self) -> None:
        """Nothing was made."""


@dataclass
class SwitchLink:
    """A link to the run's own switch.

    Attributes:
        kind: ``veth`` (a pair of the kernel's links) or ``tap`` (a virtual machine's network card).
        address: the target's.
        subnet: the switch's, e.g. ``198.18.4.0/24``.
        port: the switch's side.
        note: anything else for the record, e.g. who moves the packets.
        ports: empty: a server may use any port.
        unplug: removes it from the switch.
        monitor: the name for a link that mirrors the port.
    """

    kind: str
    address: str
    subnet: str
    port: Port
    note: str = ""
    unplug: Callable[[], None] = field(default=lambda: None, repr=False)
    ports: Sequence[int] = ()
    monitor: str = ""

    @property
    def listen(self) -> str:
        """The address a server binds to."""
        return self.address

    def address_for(self, client: Link) -> str:
        """The address at which a client reaches this target.

        Raises:
            Unavailable: the client is on another network, without a route.
        """
        if isinstance(client, SwitchLink) and client.subnet == self.subnet:
            return self.address
        raise Unavailable(
            f"there is no route from a {client.kind} link to {self.address}: the run's own network is joined to"
            " no other, and no firewall or forwarding rule is made"
        )

    def details(self) -> dict[str, str]:
        """For the record: the kind of link, the address, and the limit in force, as reported by the kernel."""
        found = {
            "network": f"{self.kind}, run's own bridge",
            "address": f"{self.address}/{self.subnet.partition('/')[2]}",
        }
        if self.note:
            found["network_note"] = self.note
        limited = self.rate()
        if limited is not None:
            found["network_rate"] = str(limited.to("Mbit/s"))
        return found

    def limit(self, asked: str) -> Quantity:
        """Limit the link both ways; see `limit_rate`.

        Returns:
            The rate of Ethernet frames, read back from the kernel.

        Raises:
            TargetError: the kernel refuses.
            QuantityError: ``asked`` is not a rate.
        """
        return limit_rate(self.port, asked)

    def lift(self) -> None:
        """Remove the limit."""
        lift_rate_limit(self.port)

    def rate(self) -> Quantity | None:
        """The limit in force, as reported by the kernel; ``None`` without one."""
        return rate_in_force(self.port)

    def close(self) -> None:
        """Remove the link from the switch. Safe to repeat; silent if it is already gone."""
        self.unplug()
