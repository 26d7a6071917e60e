"""A tap: the host's end of a virtual machine's network card, as a descriptor that QEMU inherits."""

from __future__ import annotations

import fcntl
import os
import struct
from typing import TYPE_CHECKING

from pytest_vperf.targets.base import Unavailable

if TYPE_CHECKING:
    from pytest_vperf.targets.network.namespaces import Namespace

# Linux, include/uapi/linux/if_tun.h. IFF_VNET_HDR lets the guest hand over large segments, as QEMU asks for.
_TUNSETIFF = 0x400454CA
_IFF_TAP, _IFF_NO_PI, _IFF_VNET_HDR = 0x0002, 0x1000, 0x4000


def open_tap(namespace: Namespace, name: str) -> int:
    """Make a tap in a namespace; it goes with its descriptor.

    Returns:
        The descriptor, which the caller closes once QEMU has inherited it.

    Raises:
        Unavailable: the kernel has no taps, or this user may not make one.
    """

    def make() -> int:
        descriptor = os.open("/dev/net/tun", os.O_RDWR | os.O_CLOEXEC)
        try:
            request = struct.pack("16sH22x", name.encode(), _IFF_TAP | _IFF_NO_PI | _IFF_VNET_HDR)
            fcntl.ioctl(descriptor, _TUNSETIFF, request)
        except BaseException:
            os.close(descriptor)
            raise
        return descriptor

    try:
        return namespace.inside(make)
    except OSError as error:
        raise Unavailable(
            f"a tap cannot be made: /dev/net/tun: {error.strerror}", remedy="modprobe tun, as root"
        ) from error
