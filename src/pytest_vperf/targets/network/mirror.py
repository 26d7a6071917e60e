"""A mirror of a port: all that goes to and comes from a target is copied to a link where nobody listens.

``tc`` does it on any port, by two filters (tc-mirred(8)), as they stand on the host's side of the link. On a switch
of Open vSwitch's, a mirror of its own is asked for (ovs-vsctl(8), "Mirror Table"). Who sends the packet also makes
the copy: of two guests on one host the thread of the kernel that moves the packets of the sending one.

The monitoring link is a dummy, which counts and drops: what a listener would cost is no part of a mirror. A kernel
without dummies gets a pair of links, whose other end drops what it receives.
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
    """A mirror that is in force.

    Attributes:
        port: that is copied.
        monitor: where the copies go.
        run: as in the place where both are.
    """

    port: str
    monitor: str
    run: Run

    @property
    def copied(self) -> int:
        """How many packets were copied until now, as the kernel counts.

        Raises:
            TargetError: it cannot be asked.
        """
        said = self.run("ip", "-j", "-s", "link", "show", "dev", self.monitor)
        try:
            return int(json.loads(said)[0]["stats64"]["tx"]["packets"])
        except (ValueError, LookupError, TypeError):
            raise TargetError(
                f"the kernel does not tell how much was copied: {said[:200]}"
            ) from None


@contextlib.contextmanager
def mirrored(target: Target, *, host: Target, by: By = "tc") -> Iterator[Mirror]:
    """Copy what goes to a target and comes from it, as long as the block runs.

    Args:
        target: on a network of the run.
        host: the machine that it runs on.
        by: what copies.

    Raises:
        ValueError: nothing copies by that name.
        Unavailable: it cannot be mirrored so; says what would help.
        TargetError: the kernel refuses, e.g. since the port is mirrored already.
    """
    if by not in _MAKE:
        raise ValueError(f"by is {by!r}, not one of {', '.join(_MAKE)}")
    port, monitor, run = _place(target, host)
    with contextlib.ExitStack() as undo:
        _MAKE[by](run, port, monitor, undo)
        yield Mirror(port, monitor, run)


def _step(run: Run, undo: contextlib.ExitStack, make: Words, end: Words) -> None:
    """Do something, and undo it at the end; what was refused, since it is there already, is not ours to undo."""

    def quietly() -> None:
        # The target may have ended, and the port with it.
        with contextlib.suppress(TargetError):
            run(*end)

    try:
        run(*make)
    except TargetError:
        raise
    except BaseException:
        quietly()  # Ctrl-C: it may be done
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
        # Else the kernel would look for IPv6 neighbours there, and count that as copies. It may have no IPv6.
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
    # In one go: from its first moment nothing but copies goes to a mirror's port.
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
    """The host's side of a target's link, the monitoring link's name, and how commands are run where they are."""
    link = link_of(target)
    if isinstance(link, SwitchLink):
        return link.port.link, link.monitor, commands.here(link.port.namespace)
    port, monitor = getattr(target, "port", ""), getattr(link, "monitor", "")
    if not port or not monitor:
        raise Unavailable(
            f"the host's side of a {link.kind} link cannot be mirrored", target=target.name
        )
    return port, monitor, commands.on(host)
