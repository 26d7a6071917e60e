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
        descriptors: that QEMU inherits, a tap's and vhost-net's. Closed by `given`, once QEMU has them.
    """

    backend: str
    mac: str
    address: str
    link: Link
    descriptors: tuple[int, ...] = ()
    _given: list[bool] = field(default_factory=list, init=False, repr=False, compare=False)

    def arguments(self) -> tuple[str, ...]:
        """For QEMU's command line."""
        # Without its boot ROM, which the firmware would read; nothing boots from this network.
        device = f"virtio-net-pci,disable-legacy=on,netdev={BACKEND},mac={self.mac},romfile="
        return ("-netdev", self.backend, "-device", device)

    def given(self) -> None:
        """QEMU has inherited the descriptors, or was not started: this process's own are closed. Safe to repeat."""
        if not self._given:
            self._given.append(True)  # their numbers may be other files' from now on
            for descriptor in self.descriptors:
                with contextlib.suppress(OSError):
                    os.close(descriptor)


class Network(Protocol):
    """What a machine's card is plugged into: the run's own switch, or a user-mode network."""

    def card(self, *, vhost: bool = False, reaches_host: bool = False) -> Card:
        """A card for one machine.

        Args:
            vhost: the host's kernel moves the packets.
            reaches_host: on a user-mode network, the machine may open connections to the host, and past it.

        Raises:
            Unavailable: this host cannot make one.
        """
        ...


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


def open_vhost() -> int:
    """A descriptor by which the kernel moves packets between a tap and a machine by itself, for one QEMU.

    Raises:
        Unavailable: the kernel cannot, or this user may not ask it to.
    """
    try:
        return os.open(_VHOST, os.O_RDWR | os.O_CLOEXEC)
    except FileNotFoundError:
        raise Unavailable(f"there is no {_VHOST}", remedy="modprobe vhost_net, as root") from None
    except PermissionError:
        raise Unavailable(f"no permission to use {_VHOST}", remedy="run as root") from None
    except OSError as error:
        raise Unavailable(
            f"{_VHOST}: {error.strerror}", remedy="modprobe vhost_net, as root"
        ) from error
