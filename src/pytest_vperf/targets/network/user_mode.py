"""The network of pods for a user who is not root: QEMU's own user-mode network, in QEMU's process.

QEMU acts for the machine with its own sockets: the machine is reached through ports of the host's loopback that QEMU
forwards. There is no kernel link, every packet passes QEMU's own network stack, and the record says so. Containers
and other hosts are not on it.

By default such a machine reaches nothing. QEMU could give it the host's loopback at a fixed address, but then all of
it, and everything else the host reaches: databases and engines listen there, and trust local clients. A test that
measures in that direction must request it.
"""

from __future__ import annotations

import itertools
import socket
from dataclasses import dataclass
from typing import TYPE_CHECKING

from pytest_vperf.targets.base import TargetError, Unavailable
from pytest_vperf.targets.network.card import BACKEND, Card

if TYPE_CHECKING:
    from collections.abc import Sequence

    from pytest_vperf.targets.base import Link

#: Addresses of a machine, and of the host as seen by the machine (QEMU documentation, "Using the user mode
#: network").
GUEST, GATEWAY, PREFIX = "10.0.2.15", "10.0.2.2", 24
_LOOPBACK = "127.0.0.1"
#: Number of ports for each machine: a server's, and one for a second connection.
_PORTS = 2


@dataclass(frozen=True)
class LoopbackLink:
    """The host's loopback, as reached by the host itself and by pods with a user-mode network."""

    kind: str = "loopback"
    ports: Sequence[int] = ()
    listen: str = _LOOPBACK

    def address_for(self, client: Link) -> str:
        """The address at which a client reaches the host.

        Raises:
            Unavailable: the client is on another network.
        """
        return _where(client, {"loopback": _LOOPBACK, "user": GATEWAY})

    def details(self) -> dict[str, str]:
        """For the record."""
        return {"network": "the host's loopback", "address": _LOOPBACK}

    def close(self) -> None:
        """Nothing was made."""


@dataclass(frozen=True)
class UserLink:
    """A pod on its own user-mode network.

    Attributes:
        ports: of the host's loopback, forwarded to the same ports of the machine.
        reaches_host: whether it may open connections to the host, and beyond.
    """

    ports: Sequence[int]
    reaches_host: bool = False
    kind: str = "user"
    listen: str = GUEST

    def address_for(self, client: Link) -> str:
        """The address at which a client reaches the pod; other pods go through the host.

        Raises:
            Unavailable: the client is on another network.
        """
        return _where(client, {"loopback": _LOOPBACK, "user": GATEWAY})

    def details(self) -> dict[str, str]:
        """For the record."""
        return {
            "network": "QEMU's user-mode network (no link of the kernel: each packet passes QEMU's own stack)",
            "address": f"{GUEST}/{PREFIX}",
            "forwarded_ports": ", ".join(map(str, self.ports)),
            "network_reach": "all that the host reaches" if self.reaches_host else "nothing",
        }

    def close(self) -> None:
        """Nothing to do: it ends with QEMU."""


class UserNetwork:
    """User-mode networks for pods, and the host beside them.

    Attributes:
        host: the host's link.
    """

    def __init__(self) -> None:
        self.host = LoopbackLink()
        self._numbers = itertools.count(1)

    def card(self, *, vhost: bool = False, reaches_host: bool = False) -> Card:
        """A card for a machine.

        Args:
            vhost: not available.
            reaches_host: whether the machine may open connections to the host, and beyond.

        Raises:
            Unavailable: ``vhost`` was requested, which needs a tap.
            TargetError: the host has no free ports.
        """
        if vhost:
            raise Unavailable("vhost-net needs a tap, and only root can make one")
        ports = _free_ports()
        forwards = ",".join(
            f"hostfwd={kind}:{_LOOPBACK}:{port}-{GUEST}:{port}"
            for port in ports
            for kind in ("tcp", "udp")
        )
        number = next(self._numbers)
        return Card(
            f"user,id={BACKEND},restrict={'off' if reaches_host else 'on'},ipv6=off,{forwards}",
            f"02:76:70:75:{number >> 8:02x}:{number & 0xFF:02x}",
            f"{GUEST}/{PREFIX}",
            UserLink(ports, reaches_host),
        )


def _where(client: Link, places: dict[str, str]) -> str:
    if client.kind not in places:
        raise Unavailable(
            f"there is no route from a {client.kind} link to a user-mode network, which joins a pod to the host alone"
        )
    if isinstance(client, UserLink) and not client.reaches_host:
        raise Unavailable(
            "a pod on a user-mode network accepts connections and opens none: otherwise it would reach all that"
            " listens on the host's loopback",
            remedy="pods.start(network=network, reaches_host=True); or run as root, for a network of the run's own",
        )
    return places[client.kind]


def _free_ports() -> tuple[int, ...]:
    """Ports that are free for TCP and UDP; if one is taken before QEMU starts, QEMU refuses to."""
    found: list[int] = []
    for _ in range(100):
        with (
            socket.socket(socket.AF_INET, socket.SOCK_STREAM) as stream,
            socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as datagram,
        ):
            stream.bind((_LOOPBACK, 0))
            port = stream.getsockname()[1]
            try:
                datagram.bind((_LOOPBACK, port))
            except OSError:
                continue
        if port not in found:
            found.append(port)
        if len(found) == _PORTS:
            return tuple(found)
    raise TargetError("this host has no free ports for a pod's user-mode network")
