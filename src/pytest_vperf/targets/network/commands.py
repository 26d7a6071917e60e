"""Running network programs, ``ip`` and ``tc`` (iproute2) and Open vSwitch's, with their refusals as errors.

On this machine they run in a network namespace, on another machine through its target.
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

    #: Runs a program, by its name and arguments, in one place; returns its output, and raises as `run` does.
    Run = Callable[..., str]

_TIMEOUT = 20.0
#: The Debian package of each program.
_PACKAGES = {
    "ip": "iproute2",
    "tc": "iproute2",
    "ovs-vsctl": "openvswitch-switch",
    "ovs-appctl": "openvswitch-switch",
}
#: Messages that mean that the machine lacks something, whatever the request → remedy.
_CANNOT = {
    re.compile(r"not permitted|[Pp]ermission denied|Read-only file system"): (
        "run as the machine's root; in a container, run it with --privileged"
    ),
    re.compile(
        "Unknown device type|Operation not supported|qdisc kind is unknown|TC classifier not found"
        "|Failed to load TC action"
    ): "a kernel with this part, or as root: modprobe -a veth bridge ifb dummy sch_tbf sch_ingress cls_u32"
    " act_mirred",
    # Open vSwitch's database or switch is down, or the switch did not apply the database in time (alarm(2)). Its
    # script does not start a switch if the kernel module cannot be loaded.
    re.compile(
        "database connection failed|ovs-appctl: cannot|terminating with signal 14"
    ): "systemctl start openvswitch-switch; without systemd: /usr/share/openvswitch/scripts/ovs-ctl"
    " --system-id=random start, and without its kernel module: ovs-vswitchd --pidfile --detach; as root",
}


def ip(*words: str, namespace: Path | None = None) -> str:
    """Run ``ip``; return its output.

    Args:
        words: its arguments.
        namespace: the file of the network namespace to run it in; ``None`` for this process's own.

    Raises:
        Unavailable: it is not installed, or this kernel or user cannot do such things at all.
        TargetError: it refuses; with its message.
    """
    return run("ip", words, namespace)


def ip_json(
    *words: str, namespace: Path | None = None, run: Run | None = None
) -> list[dict[str, Any]]:
    """Run ``ip -j`` and parse its output.

    Args:
        words: its arguments.
        namespace: as for `ip`.
        run: runs programs somewhere else than in a namespace of this machine.

    Raises:
        Unavailable: it is not installed.
        TargetError: it refuses.
    """
    printed = (run or here(namespace))("ip", "-j", *words)
    try:
        # Some versions print an empty object if a family has no entries.
        return [entry for entry in json.loads(printed or "[]") if entry]
    except ValueError:
        raise TargetError(f"ip's output is not understood: {printed[:200]}") from None


def tc(*words: str, namespace: Path) -> str:
    """Run ``tc`` in a network namespace; return its output.

    Raises:
        Unavailable: it is not installed.
        TargetError: it refuses.
    """
    return run("tc", words, namespace)


def entering(namespace: Path) -> tuple[str, ...]:
    """The prefix of a command that runs it in a network namespace.

    Not ``ip netns exec``, which also changes the command's mounts.

    Raises:
        Unavailable: there is no ``nsenter``.
    """
    program = find_program("nsenter")
    if program is None:
        raise Unavailable("nsenter is not installed", remedy="apt-get install util-linux")
    return (program, f"--net={namespace}", "--")


def run(name: str, words: Sequence[str], namespace: Path | None) -> str:
    """Run a program in a network namespace; return its output.

    Raises:
        Unavailable: it is not installed, or this kernel or user cannot do such things at all.
        TargetError: it refuses; with its message.
    """
    program = find_program(name)
    if program is None:
        raise Unavailable(f"{name} is not installed", remedy=_install(name))
    try:
        done = subprocess.run(
            [*(entering(namespace) if namespace else ()), program, *words],
            env={**os.environ, "LC_ALL": "C"},  # its messages are parsed
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
    """A `Run` for this machine, in a network namespace or in this process's own."""
    return lambda name, *words: run(name, words, namespace)


def on(host: Target) -> Run:
    """A `Run` for a host, which may be another machine."""

    def run_there(name: str, *words: str) -> str:
        # The PATH of an ordinary user, or of a non-interactive login, may lack the sbin folders.
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
    """The error for a refusal: `Unavailable` if the machine cannot do such things at all.

    Args:
        name: the program's.
        words: its arguments.
        said: its message.
        where: the machine, if not this one, e.g. `` on host (lab kvm)``.
    """
    text = f"{name} {' '.join(words)}{where}: {said}"
    for sign, remedy in _CANNOT.items():
        if sign.search(said):
            return Unavailable(text, remedy=remedy)
    return TargetError(text)
