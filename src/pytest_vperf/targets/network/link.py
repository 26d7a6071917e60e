"""How one target is on a network: where others reach it, and what the link really is."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from pytest_vperf.targets.base import Unavailable
from pytest_vperf.targets.network import rate

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from pytest_vperf.quantity import Quantity
    from pytest_vperf.targets.base import Link


@dataclass(frozen=True)
class RouteLink:
    """The networks that this machine is on anyway: how it and a machine reached by SSH reach each other.

    Attributes:
        address: the target's, as the other one sees it.
        ports: none: a server may have any port that the two machines' own firewalls let through.
    """

    address: str
    kind: str = "route"
    ports: Sequence[int] = ()

    @property
    def listen(self) -> str:
        """The address a server binds to."""
        return self.address

    def address_for(self, client: Link) -> str:
        """Where a client reaches this target.

        Raises:
            Unavailable: the client is on a network of the run alone.
        """
        if client.kind == self.kind:
            return self.address
        raise Unavailable(
            f"there is no way from a {client.kind} link to {self.address}: the run's own network is joined to"
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
        kind: ``veth`` (a pair of links of the kernel) or ``tap`` (a virtual machine's network card).
        address: the target's.
        subnet: of the switch, e.g. ``198.18.4.0/24``.
        port: the switch's side.
        note: what else is to be known of it, e.g. how the target came to it.
        ports: none: a server may have any port.
        unplug: takes it from the switch; given by the switch.
        monitor: the name that a link beside the port has, where the port is mirrored.
    """

    kind: str
    address: str
    subnet: str
    port: rate.Port
    note: str = ""
    unplug: Callable[[], None] = field(default=lambda: None, repr=False)
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
        if isinstance(client, SwitchLink) and client.subnet == self.subnet:
            return self.address
        raise Unavailable(
            f"there is no way from a {client.kind} link to {self.address}: the run's own network is joined to"
            " no other, and no firewall or forwarding rule is made"
        )

    def details(self) -> dict[str, str]:
        """For the record: what the link is, the address, and the limit in force as the kernel says it."""
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
        """Limit the link both ways; see `pytest_vperf.targets.network.rate`.

        Returns:
            The rate of Ethernet frames, read back from the kernel.

        Raises:
            TargetError: the kernel refuses.
            QuantityError: ``asked`` is no rate.
        """
        return rate.limit(self.port, asked)

    def lift(self) -> None:
        """Take the limit away."""
        rate.lift(self.port)

    def rate(self) -> Quantity | None:
        """The limit in force, asked of the kernel; ``None`` without one."""
        return rate.read_back(self.port)

    def close(self) -> None:
        """Take the link from the switch. Safe to repeat; quiet if it is gone already."""
        self.unplug()
