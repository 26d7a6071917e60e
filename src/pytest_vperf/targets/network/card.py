"""The network card of a virtual machine: its QEMU options, and the configuration of its address in the machine."""

from __future__ import annotations

import contextlib
import os
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Protocol

from pytest_vperf.targets.base import TargetError, Unavailable

if TYPE_CHECKING:
    from pytest_vperf.targets.base import Link, Target

#: QEMU's ID of the backend.
BACKEND = "net0"
_VHOST = Path("/dev/vhost-net")


@dataclass(frozen=True)
class Card:
    """A virtio network card that a machine is started with.

    Attributes:
        backend: QEMU's ``-netdev``.
        mac: its MAC address.
        address: the machine's, with the prefix length, e.g. ``198.18.4.3/24``.
        link: the target's link.
        descriptors: for QEMU to inherit, the tap's and vhost-net's. Closed here by `given`.
    """

    backend: str
    mac: str
    address: str
    link: Link
    descriptors: tuple[int, ...] = ()
    _given: list[bool] = field(default_factory=list, init=False, repr=False, compare=False)

    def arguments(self) -> tuple[str, ...]:
        """Its options on QEMU's command line."""
        # No boot ROM: the firmware would read it, and nothing boots from this network.
        device = f"virtio-net-pci,disable-legacy=on,netdev={BACKEND},mac={self.mac},romfile="
        return ("-netdev", self.backend, "-device", device)

    def given(self) -> None:
        """Close this process's descriptors, once QEMU has inherited them or was not started. Safe to repeat."""
        if not self._given:
            self._given.append(True)  # their numbers may be reused for other files
            for descriptor in self.descriptors:
                with contextlib.suppress(OSError):
                    os.close(descriptor)


class Network(Protocol):
    """What a machine's card is plugged into: the run's own switch, or a user-mode network."""

    def card(self, *, vhost: bool = False, reaches_host: bool = False) -> Card:
        """A card for one machine.

        Args:
            vhost: whether the host's kernel moves the packets.
            reaches_host: on a user-mode network, whether the machine may open connections to the host, and beyond.

        Raises:
            Unavailable: this host cannot create one.
        """
        ...


def configure(target: Target, address: str) -> None:
    """Configure a running machine's address with the ``ip`` of its image.

    Raises:
        Unavailable: the image has no ``ip``.
        TargetError: ``ip`` refuses; with its message.
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
                "its image has no program ip, which it needs to take its address",
                remedy="an image with iproute2 or busybox",
                target=target.name,
            )
        if done.returncode:
            said = done.stderr.decode("utf-8", "replace").strip()
            raise TargetError(
                f"{target.name} cannot take its address: ip {' '.join(words)}: {said}",
                target=target.name,
            )


def open_vhost() -> int:
    """Open vhost-net for one QEMU, so that the kernel itself moves packets between tap and machine.

    Raises:
        Unavailable: the kernel has no vhost-net, or this user may not use it.
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
