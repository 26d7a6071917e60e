"""The network card of a virtual machine: what QEMU is given for it, and how the machine takes its address."""

from __future__ import annotations

import contextlib
import os
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Protocol

from pytest_vperf.targets.base import TargetError, Unavailable

if TYPE_CHECKING:
    from pytest_vperf.targets.base import Link, Target
    from pytest_vperf.targets.pod.pod import Pod

#: QEMU's name of the back end.
BACKEND = "net0"
_VHOST = Path("/dev/vhost-net")


@dataclass(frozen=True)
class Card:
    """A virtio network card that a machine is started with.

    Attributes:
        backend: QEMU's ``-netdev``.
        mac: the link-layer address.
        address: what the machine takes, with the length of the subnet, e.g. ``198.18.4.3/24``.
        link: the target's link.
        descriptor: the tap that QEMU inherits; -1 without one. Closed by `given`, once QEMU has it.
    """

    backend: str
    mac: str
    address: str
    link: Link
    descriptor: int = -1
    _given: list[bool] = field(default_factory=list, init=False, repr=False, compare=False)

    def arguments(self) -> tuple[str, ...]:
        """For QEMU's command line."""
        # Without its boot ROM, which the firmware would read; nothing boots from this network.
        device = f"virtio-net-pci,disable-legacy=on,netdev={BACKEND},mac={self.mac},romfile="
        return ("-netdev", self.backend, "-device", device)

    def given(self) -> None:
        """QEMU has inherited the descriptor, or was not started: this process's own is closed. Safe to repeat."""
        if self.descriptor >= 0 and not self._given:
            self._given.append(True)  # its number may be another file's from now on
            with contextlib.suppress(OSError):
                os.close(self.descriptor)


class Network(Protocol):
    """What a machine's card is plugged into: the run's own switch, or a user-mode network."""

    def card(self, *, vhost: bool = False) -> Card:
        """A card for one machine.

        Raises:
            Unavailable: this host cannot make one.
        """
        ...


def plug_in(pod: Pod, card: Card) -> None:
    """Give a running pod its address, with the ``ip`` of its image, and its link; the pod is ended where that fails.

    Raises:
        Unavailable: the image has none.
        TargetError: it refuses; with its words.
    """
    pod.link = card.link
    try:
        configure(pod, card.address)
    except BaseException:
        pod.close()
        raise


def configure(target: Target, address: str) -> None:
    """Have a running machine take its address, with the ``ip`` of its image.

    Raises:
        Unavailable: the image has none.
        TargetError: it refuses; with its words.
    """
    commands = (
        ("link", "set", "lo", "up"),
        ("address", "add", address, "dev", "eth0"),
        ("link", "set", "eth0", "up"),
    )
    for words in commands:
        done = target.run(["ip", *words], check=False)
        if done.returncode == 127:
            raise Unavailable(
                "its image has no program ip, by which it would take its address",
                remedy="an image with iproute2 or busybox",
                target=target.name,
            )
        if done.returncode:
            said = done.stderr.decode("utf-8", "replace").strip()
            raise TargetError(
                f"{target.name} does not take its address: ip {' '.join(words)}: {said}",
                target=target.name,
            )


def need_vhost() -> None:
    """Make sure that the kernel can move packets between a tap and a machine by itself.

    Raises:
        Unavailable: it cannot, or this user may not ask it to.
    """
    if not _VHOST.exists():
        raise Unavailable(f"there is no {_VHOST}", remedy="modprobe vhost_net, as root")
    if not os.access(_VHOST, os.R_OK | os.W_OK):
        raise Unavailable(f"no permission to use {_VHOST}", remedy="run as root")
