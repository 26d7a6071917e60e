"""The address of a libvirt daemon: ``qemu:///system``, ``qemu+ssh://user@host/system``, ``xen:///system``.

Format: https://libvirt.org/uri.html.
"""

from __future__ import annotations

import re
from urllib.parse import urlsplit

#: The drivers whose machines pytest-vperf starts.
DRIVERS = ("qemu", "xen")
_PATHS = {"qemu": ("/system", "/session", "/embed"), "xen": ("/", "/system", "")}
_TRANSPORTS = ("", "unix", "ssh", "libssh", "libssh2", "tls", "tcp", "ext")


def check(uri: str) -> str:
    """Make sure that a text is a possible address of a daemon that starts machines.

    Returns:
        The address.

    Raises:
        ValueError: it is not; says why, with examples.
    """
    example = "qemu:///system, qemu+ssh://root@HOST/system or xen:///system"
    try:
        parts = urlsplit(uri)
        _ = parts.port  # parsed, and rejected, only on access
    except ValueError:
        raise ValueError(f"{uri!r} is not an address: give {example}") from None
    driver, _, transport = parts.scheme.partition("+")
    if driver not in DRIVERS:
        raise ValueError(
            f"{uri!r} names no driver of libvirt that starts machines here: give {example}"
        )
    if transport not in _TRANSPORTS:
        raise ValueError(
            f"{uri!r}: {transport!r} is not a transport of libvirt; there are {', '.join(_TRANSPORTS[1:])}"
        )
    if parts.path not in _PATHS[driver]:
        raise ValueError(f"{uri!r}: the path is not /system: give {example}")
    if parts.netloc and not parts.hostname:
        raise ValueError(f"{uri!r} names no host: give {example}")
    return uri


def driver(uri: str) -> str:
    """The address's driver: ``qemu`` or ``xen``."""
    return urlsplit(uri).scheme.partition("+")[0]


def is_remote(uri: str) -> bool:
    """Whether the daemon is or may be on another machine, where local paths mean nothing."""
    return bool(urlsplit(uri).netloc)


def machine(uri: str) -> str:
    """The host part of a remote daemon's address, with user and port."""
    return urlsplit(uri).netloc


def is_session(uri: str) -> bool:
    """Whether it is a user's own daemon, without privileges."""
    return urlsplit(uri).path == "/session"


def shown(uri: str) -> str:
    """The address for messages and records: without parameters, which name key files and commands."""
    return re.sub(r"\?.*", "", uri)


def ssh_url(uri: str) -> str:
    """The machine of a daemon that is reached over SSH, as ``ssh://[user@]host[:port]``.

    Raises:
        Unavailable: its transport is not SSH.
    """
    from pytest_vperf.targets.base import Unavailable

    parts = urlsplit(uri)
    _, _, transport = parts.scheme.partition("+")
    if transport not in ("ssh", "libssh", "libssh2"):
        raise Unavailable(
            f"commands on the machine of {shown(uri)} need SSH, and libvirt is reached there without",
            remedy="name it with +ssh, e.g. qemu+ssh://root@HOST/system",
        )
    return f"ssh://{parts.netloc}"
