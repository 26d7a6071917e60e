"""The programs ``ip`` and ``tc`` (iproute2), called within a network namespace; their refusals become errors."""

from __future__ import annotations

import json
import os
import re
import subprocess
from typing import TYPE_CHECKING, Any

from pytest_vperf.machine.preflight import find_program
from pytest_vperf.targets.base import TargetError, Unavailable

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

_TIMEOUT = 20.0
_REMEDY = "apt-get install iproute2"
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


def ip_json(*words: str, namespace: Path | None = None) -> list[dict[str, Any]]:
    """Run ``ip -j`` and read what it prints.

    Raises:
        Unavailable: it is not installed.
        TargetError: it refuses.
    """
    printed = ip("-j", *words, namespace=namespace)
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
        remedy = _REMEDY if name in ("ip", "tc") else ""
        raise Unavailable(f"{name} is not installed", remedy=remedy)
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
