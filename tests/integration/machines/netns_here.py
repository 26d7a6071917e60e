"""A private network namespace with a link to this one."""

from __future__ import annotations

import contextlib
import os
import secrets
import subprocess
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

import psutil

from pytest_vperf.targets.network.addresses import Addresses, free_subnet, taken

if TYPE_CHECKING:
    from collections.abc import Iterator

#: The name contains its maker's PID, so that it can be removed if the maker was killed.
_NAME = "vperf-test-"


class Namespace(NamedTuple):
    """A namespace.

    Attributes:
        inside: the words that enter it.
        address: its own, which nothing else here has a route to.
    """

    inside: list[str]
    address: str


@contextlib.contextmanager
def namespace() -> Iterator[Namespace]:
    """Make one with addresses that are free here; it and its link are removed at the end."""
    _sweep()
    name = f"{_NAME}{os.getpid()}"
    _ip("netns", "add", name)
    try:
        # Not "ip netns exec", which has its own mount namespace: the engine would not see what is mounted there.
        inside = ["nsenter", f"--net=/run/netns/{name}"]
        link = f"vpt{secrets.token_hex(4)}"
        addresses = Addresses(free_subnet(taken(), secrets.randbelow(500)))
        here, there = addresses.take(), addresses.take()
        _ip("link", "add", link, "type", "veth", "peer", "name", "eth0", "netns", name)
        _ip("address", "add", str(here), "dev", link)
        _ip("link", "set", link, "up")
        _ip("-n", name, "address", "add", str(there), "dev", "eth0")
        _ip("-n", name, "link", "set", "eth0", "up")
        _ip("-n", name, "link", "set", "lo", "up")
        yield Namespace(inside, str(there.ip))
    finally:
        _ip("netns", "delete", name)


def _sweep() -> None:
    """Remove those of killed test runs."""
    for path in Path("/run/netns").glob(f"{_NAME}*"):
        if not psutil.pid_exists(int(path.name.removeprefix(_NAME))):
            _ip("netns", "delete", path.name)


def _ip(*words: str) -> None:
    subprocess.run(["ip", *words], check=True, capture_output=True)
