"""Port mirroring: all traffic to and from a target is copied to a link without a listener.

``tc`` can mirror any port, with two filters on the host's side of the link (tc-mirred(8)). A port of Open vSwitch can
have a mirror of the switch instead (ovs-vsctl(8), "Mirror Table"). The sender of a packet also makes the copy:
between two guests on one host, the kernel thread that moves the sending guest's packets.

The monitoring link is a dummy, which counts and drops, so that a mirror does not include the cost of a listener. On a
kernel without dummies it is a pair of links, whose other end drops what it receives.
"""

from __future__ import annotations

import contextlib
import json
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

from pytest_vperf.machine.open_vswitch import ASK
from pytest_vperf.targets.base import TargetError, Unavailable, link_of
from pytest_vperf.targets.network import commands
from pytest_vperf.targets.network.link import SwitchLink

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

    from pytest_vperf.targets.base import Target
    from pytest_vperf.targets.network.commands import Run

    Words = tuple[str, ...]

By = Literal["tc", "ovs"]

_EVERYTHING = ("protocol", "all", "u32", "match", "u32", "0", "0")
_NO_SWITCH = "start a guest with network=guests.ovs_network, or mirror the port with tc"


@dataclass(frozen=True)
class Mirror:
    """A mirror in force.

    Attributes:
        port: the port that is copied.
        monitor: the link that gets the copies.
        run: runs programs where both are.
    """

    port: str
    monitor: str
    run: Run

    @property
    def copied(self) -> int:
        """The number of packets copied so far, as counted by the kernel.

        Raises:
            TargetError: the kernel's count cannot be read.
        """
        said = self.run("ip", "-j", "-s", "link", "show", "dev", self.monitor)
        try:
            return int(json.loads(said)[0]["stats64"]["tx"]["packets"])
        except (ValueError, LookupError, TypeError):
            raise TargetError(
                f"the kernel's count of copied packets is not understood: {said[:200]}"
            ) from None


@contextlib.contextmanager
def mirrored(target: Target, *, host: Target, by: By = "tc") -> Iterator[Mirror]:
    """Copy a target's traffic, both ways, while the block runs.

    Args:
        target: on a network of the run.
        host: the machine that it runs on.
        by: what makes the copies.

    Raises:
        ValueError: ``by`` is unknown.
        Unavailable: the port cannot be mirrored this way; with a remedy.
        TargetError: the kernel refuses, e.g. because the port is already mirrored.
    """
    if by not in _MAKE:
        raise ValueError(f"by is {by!r}, not one of {', '.join(_MAKE)}")
    port, monitor, run = _place(target, host)
    with contextlib.ExitStack() as undo:
        _MAKE[by](run, port, monitor, undo)
        yield Mirror(port, monitor, run)


def _step(run: Run, undo: contextlib.ExitStack, make: Words, end: Words) -> None:
    """Run a command, and its counterpart at the end; a refused command, e.g. for an existing link, is not undone."""

    def quietly() -> None:
        # The target may have ended, and the port with it.
        with contextlib.suppress(TargetError):
            run(*end)

    try:
        run(*make)
    except TargetError:
        raise
    except BaseException:
        quietly()  # Ctrl-C: it may have taken effect
        raise
    undo.callback(quietly)


def _add_monitor(run: Run, monitor: str, undo: contextlib.ExitStack) -> None:
    add, end, ends = ("ip", "link", "add", monitor), ("ip", "link", "delete", monitor), [monitor]
    try:
        _step(run, undo, (*add, "type", "dummy"), end)
    except Unavailable:
        ends.append(f"{monitor}e")
        _step(run, undo, (*add, "type", "veth", "peer", "name", ends[1]), end)
    for name in ends:
        # Otherwise the kernel looks for IPv6 neighbours there, which count as copies. Fails on a kernel without IPv6.
        with contextlib.suppress(TargetError):
            run("ip", "link", "set", name, "addrgenmode", "none")
        run("ip", "link", "set", name, "up")


def _with_tc(run: Run, port: str, monitor: str, undo: contextlib.ExitStack) -> None:
    _add_monitor(run, monitor, undo)
    place = ("dev", port, "clsact")
    _step(run, undo, ("tc", "qdisc", "add", *place), ("tc", "qdisc", "delete", *place))
    for way in ("egress", "ingress"):
        copy = ("action", "mirred", "egress", "mirror", "dev", monitor)
        run("tc", "filter", "add", "dev", port, way, *_EVERYTHING, *copy)


def _with_switch(run: Run, port: str, monitor: str, undo: contextlib.ExitStack) -> None:
    try:
        bridge = run(*ASK, "port-to-br", port).strip()
    except Unavailable:
        raise
    except TargetError as error:
        raise Unavailable(
            f"{port} is on no switch of Open vSwitch's: {error}", remedy=_NO_SWITCH
        ) from None
    _add_monitor(run, monitor, undo)
    # In one transaction, so that the mirror's port never gets anything but copies.
    _step(
        run,
        undo,
        (
            *(*ASK, "--", "add-port", bridge, monitor),
            *("--", "--id=@p", "get", "port", port, "--", "--id=@o", "get", "port", monitor),
            *("--", "--id=@m", "create", "mirror", f"name={monitor}", "output-port=@o"),
            *("select-dst-port=@p", "select-src-port=@p"),
            *("--", "add", "bridge", bridge, "mirrors", "@m"),
        ),
        (
            *(*ASK, "--", "--id=@m", "get", "mirror", monitor),
            *("--", "remove", "bridge", bridge, "mirrors", "@m"),
            *("--", "--if-exists", "del-port", bridge, monitor),
        ),
    )


_MAKE: Mapping[str, Callable[[Run, str, str, contextlib.ExitStack], None]] = {
    "tc": _with_tc,
    "ovs": _with_switch,
}


def _place(target: Target, host: Target) -> tuple[str, str, Run]:
    """The host's side of a target's link, the monitoring link's name, and a function that runs commands there."""
    link = link_of(target)
    if isinstance(link, SwitchLink):
        return link.port.link, link.monitor, commands.here(link.port.namespace)
    port, monitor = getattr(target, "port", ""), getattr(link, "monitor", "")
    if not port or not monitor:
        raise Unavailable(
            f"the host's side of a {link.kind} link cannot be mirrored", target=target.name
        )
    return port, monitor, commands.on(host)
