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

from pytest_vperf.targets.base import TargetError, Unavailable, link_of
from pytest_vperf.targets.network import commands
from pytest_vperf.targets.network.link import SwitchLink

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from pytest_vperf.targets.base import Target

    #: Runs a program of the place where the port is; returns what it prints, and raises as `commands.ip` does.
    Run = Callable[..., str]

By = Literal["tc", "ovs"]

_EVERYTHING = ("protocol", "all", "u32", "match", "u32", "0", "0")
_NO_SWITCH = "apt-get install openvswitch-switch there, and guests on a bridge of it; or mirror the port with tc"


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
        Unavailable: it cannot be mirrored so; says what would help.
        TargetError: the kernel refuses.
    """
    port, run = _place(target, host)
    monitor = f"{port[:12]}mon"
    make, end = (_with_switch, _end_switch) if by == "ovs" else (_with_tc, _end_tc)
    try:
        make(run, port, monitor)
        yield Mirror(port, monitor, run)
    finally:
        end(run, port, monitor)


def _add_monitor(run: Run, monitor: str) -> None:
    try:
        run("ip", "link", "add", monitor, "type", "dummy")
    except Unavailable:
        end = f"{monitor[:-1]}e"
        run("ip", "link", "add", monitor, "type", "veth", "peer", "name", end)
        run("ip", "link", "set", end, "up")
    run("ip", "link", "set", monitor, "up")


def _with_tc(run: Run, port: str, monitor: str) -> None:
    _add_monitor(run, monitor)
    run("tc", "qdisc", "add", "dev", port, "clsact")
    for way in ("egress", "ingress"):
        copy = ("action", "mirred", "egress", "mirror", "dev", monitor)
        run("tc", "filter", "add", "dev", port, way, *_EVERYTHING, *copy)


def _end_tc(run: Run, port: str, monitor: str) -> None:
    # The target may have ended, and the port with it; what was not made cannot be taken away.
    for words in (
        ("tc", "qdisc", "delete", "dev", port, "clsact"),
        ("ip", "link", "delete", monitor),
    ):
        with contextlib.suppress(TargetError):
            run(*words)


def _with_switch(run: Run, port: str, monitor: str) -> None:
    try:
        bridge = run("ovs-vsctl", "--timeout=10", "port-to-br", port).strip()
    except TargetError as error:
        raise Unavailable(
            f"{port} is on no switch of Open vSwitch's: {error}", remedy=_NO_SWITCH
        ) from None
    _add_monitor(run, monitor)
    run(
        *("ovs-vsctl", "--timeout=10", "--", "add-port", bridge, monitor),
        *("--", "--id=@p", "get", "port", port, "--", "--id=@o", "get", "port", monitor),
        *("--", "--id=@m", "create", "mirror", f"name={monitor}", "output-port=@o"),
        *("select-dst-port=@p", "select-src-port=@p"),
        *("--", "add", "bridge", bridge, "mirrors", "@m"),
    )


def _end_switch(run: Run, port: str, monitor: str) -> None:
    with contextlib.suppress(TargetError):
        bridge = run("ovs-vsctl", "--timeout=10", "port-to-br", monitor).strip()
        words = ("--id=@m", "get", "mirror", monitor, "--", "remove", "bridge", bridge, "mirrors")
        run("ovs-vsctl", "--timeout=10", "--", *words, "@m", "--", "del-port", bridge, monitor)
    with contextlib.suppress(TargetError):
        run("ip", "link", "delete", monitor)


def _place(target: Target, host: Target) -> tuple[str, Run]:
    """The host's side of a target's link, and how commands are run where it is."""
    link = link_of(target)
    if isinstance(link, SwitchLink):
        return link.port.link, _here(link.port.namespace)
    port: str = getattr(target, "port", "")
    if not port:
        raise Unavailable(
            f"the host's side of a {link.kind} link cannot be mirrored", target=target.name
        )
    return port, _there(host)


def _here(namespace: Path) -> Run:
    return lambda name, *words: commands.run(name, words, namespace)


def _there(host: Target) -> Run:
    def run(name: str, *words: str) -> str:
        done = host.run([name, *words], env={"LC_ALL": "C"}, timeout=30.0, check=False)
        if done.returncode:
            said = " ".join(done.stderr.decode("utf-8", "replace").split())
            raise commands.refused(
                name, words, said or f"status {done.returncode}", where=f" on {host.name}"
            )
        return done.text

    return run
