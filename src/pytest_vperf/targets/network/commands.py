"""The programs of networks, ``ip`` and ``tc`` (iproute2) and Open vSwitch's: their refusals become errors.

On this machine they are called within a network namespace; on another one by what runs commands there.
"""

from __future__ import annotations

import json
import os
import re
import subprocess
from typing import TYPE_CHECKING, Any

from pytest_vperf.machine.preflight import find_program
from pytest_vperf.targets.base import TargetError, Unavailable

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from pathlib import Path

    from pytest_vperf.targets.base import Target

    #: Runs a program by its name and words in one place; returns what it prints, and raises as `run` does.
    Run = Callable[..., str]

_TIMEOUT = 20.0
#: The Debian package of each program.
_PACKAGES = {
    "ip": "iproute2",
    "tc": "iproute2",
    "ovs-vsctl": "openvswitch-switch",
    "ovs-appctl": "openvswitch-switch",
}
#: What this machine, and not the request, lacks: how it is said by the kernel and by iproute2, and what mends it.
_CANNOT = {
    re.compile(r"not permitted|[Pp]ermission denied|Read-only file system"): (
        "run as the machine's root; in a container, run it with --privileged"
    ),
    re.compile(
        "Unknown device type|Operation not supported|qdisc kind is unknown|TC classifier not found"
        "|Failed to load TC action"
    ): "a kernel with this part, or as root: modprobe -a veth bridge ifb dummy sch_tbf sch_ingress cls_u32"
    " act_mirred",
    # Open vSwitch's database, its switch, and a switch that does not do in time what is in the database (alarm(2)).
    # Its script starts no switch where the kernel's module cannot be loaded.
    re.compile(
        "database connection failed|ovs-appctl: cannot|terminating with signal 14"
    ): "systemctl start openvswitch-switch; without systemd: /usr/share/openvswitch/scripts/ovs-ctl"
    " --system-id=random start, and without its kernel module: ovs-vswitchd --pidfile --detach; as root",
}


def ip(*words: str, namespace: Path | None = None) -> str:
    """Run ``ip``; what it prints.

    Args:
        words: its arguments.
        namespace: the file of the network namespace it works in; ``None`` is this process's own.

    Raises:
        Unavailable: it is not installed, or this kernel or user cannot do such a thing at all.
        TargetError: it refuses; with its words.
    """
    return run("ip", words, namespace)


def ip_json(
    *words: str, namespace: Path | None = None, run: Run | None = None
) -> list[dict[str, Any]]:
    """Run ``ip -j`` and read what it prints.

    Args:
        words: its arguments.
        namespace: as of `ip`.
        run: runs programs in another place than a namespace of this machine.

    Raises:
        Unavailable: it is not installed.
        TargetError: it refuses.
    """
    printed = (run or here(namespace))("ip", "-j", *words)
    try:
        # Some versions print an empty object where a family has nothing.
        return [entry for entry in json.loads(printed or "[]") if entry]
    except ValueError:
        raise TargetError(f"what ip says is not understood: {printed[:200]}") from None


def tc(*words: str, namespace: Path) -> str:
    """Run ``tc`` in a network namespace; what it prints.

    Raises:
        Unavailable: it is not installed.
        TargetError: it refuses.
    """
    return run("tc", words, namespace)


def entering(namespace: Path) -> tuple[str, ...]:
    """The words before a command that is to run in a network namespace.

    Not ``ip netns exec``: that gives the command other mounts too, by which it is in another place.

    Raises:
        Unavailable: there is no ``nsenter``.
    """
    program = find_program("nsenter")
    if program is None:
        raise Unavailable("nsenter is not installed", remedy="apt-get install util-linux")
    return (program, f"--net={namespace}", "--")


def run(name: str, words: Sequence[str], namespace: Path | None) -> str:
    """Run a program in a network namespace; what it prints.

    Raises:
        Unavailable: it is not installed, or this kernel or user cannot do such a thing at all.
        TargetError: it refuses; with its words.
    """
    program = find_program(name)
    if program is None:
        raise Unavailable(f"{name} is not installed", remedy=_install(name))
    try:
        done = subprocess.run(
            [*(entering(namespace) if namespace else ()), program, *words],
            env={**os.environ, "LC_ALL": "C"},  # its words are read
            capture_output=True,
            text=True,
            errors="replace",
            timeout=_TIMEOUT,
            check=False,
        )
    except subprocess.TimeoutExpired:
        raise TargetError(f"{name} {' '.join(words)} took longer than {_TIMEOUT:g} s") from None
    if done.returncode:
        said = " ".join(done.stderr.split()) or f"status {done.returncode}"
        raise refused(name, words, said)
    return done.stdout


def _install(name: str) -> str:
    return f"apt-get install {_PACKAGES[name]}" if name in _PACKAGES else ""


def here(namespace: Path | None = None) -> Run:
    """How programs are run on this machine, in a network namespace or in this process's own."""
    return lambda name, *words: run(name, words, namespace)


def on(host: Target) -> Run:
    """How programs are run on a machine, which may be another one."""

    def run_there(name: str, *words: str) -> str:
        # A login that is not root's, or not interactive, may have no folders of administrators in its path.
        shell = ["sh", "-c", 'PATH=$PATH:/usr/sbin:/sbin; exec "$@"', "sh", name, *words]
        done = host.run(shell, env={"LC_ALL": "C"}, timeout=30.0, check=False)
        if done.returncode == 127:
            remedy = f"{_install(name)}, there" if name in _PACKAGES else ""
            raise Unavailable(f"{name} is not installed on {host.name}", remedy=remedy)
        if done.returncode:
            said = " ".join(done.stderr.decode("utf-8", "replace").split())
            raise refused(
                name, words, said or f"status {done.returncode}", where=f" on {host.name}"
            )
        return done.text

    return run_there


def refused(name: str, words: Sequence[str], said: str, *, where: str = "") -> TargetError:
    """What a refusal is: the machine's, which cannot do such a thing at all, or of this request.

    Args:
        name: of the program.
        words: its arguments.
        said: what it said.
        where: on which machine, where that is not this one: `` on host (lab kvm)``.
    """
    text = f"{name} {' '.join(words)}{where}: {said}"
    for sign, remedy in _CANNOT.items():
        if sign.search(said):
            return Unavailable(text, remedy=remedy)
    return TargetError(text)
