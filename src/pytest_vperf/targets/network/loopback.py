"""A target that talks to itself: both ends of a test in one system, over its loopback device.

No card, no bridge and no host is on the way, so that what is measured is the system's own network code.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol, TypeVar

from pytest_vperf.targets.base import Unavailable

if TYPE_CHECKING:
    from collections.abc import Sequence

    from pytest_vperf.targets.base import Completed, Link

    class _Linked(Protocol):
        link: Link | None

        @property
        def name(self) -> str: ...

        def run(self, argv: Sequence[str], *, timeout: float, check: bool) -> Completed: ...

    T = TypeVar("T", bound=_Linked)

#: An address that the loopback device gets besides its own: of RFC 5737, for documentation, so that nobody has it. A
#: program that asks for addresses with AI_ADDRCONFIG (getaddrinfo(3)), as netperf does, is refused even numeric ones
#: where a system has none but 127.0.0.1.
ADDRESS = "192.0.2.1"


@dataclass(frozen=True, eq=False)
class LoopbackLink:
    """The loopback device of one target; every target has its own.

    Attributes:
        ports: none: a server may have any port.
    """

    kind: str = "loopback"
    ports: Sequence[int] = ()

    @property
    def listen(self) -> str:
        """The address a server binds to."""
        return ADDRESS

    def address_for(self, client: Link) -> str:
        """Where a client in the same target reaches a server.

        Raises:
            Unavailable: the client is another target.
        """
        if client is self:
            return ADDRESS
        raise Unavailable(
            f"there is no way from a {client.kind} link to the loopback device of another target"
        )

    def details(self) -> dict[str, str]:
        """For the record."""
        return {"network": "its own loopback device", "address": ADDRESS}

    def close(self) -> None:
        """Nothing was made."""


def on_loopback(target: T) -> T:
    """The target, which can now be both ends of a network test; a link that it has already is kept.

    Raises:
        Unavailable: its loopback device cannot be given an address; says why.
    """
    if target.link is None:
        done = target.run(
            ["ip", "address", "replace", f"{ADDRESS}/32", "dev", "lo"], timeout=30.0, check=False
        )
        if done.returncode:
            said = done.stderr.decode("utf-8", "replace").strip()[-200:] or "no reason"
            raise Unavailable(
                f"the loopback device of {target.name} takes no address: {said}", target=target.name
            )
        target.link = LoopbackLink()
    return target
