"""The OCI runtimes that are known by name, and how an engine of ours is told of them."""

from __future__ import annotations

import shlex
import subprocess
from typing import TYPE_CHECKING, Any

from pytest_vperf.machine.preflight import find_program

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping
    from pathlib import Path

#: The arguments each runtime needs in an engine of ours. gVisor's own network stack wants an interface to
#: take over and refuses to start without one; our engine has no network, so it is told not to look.
ARGUMENTS: Mapping[str, tuple[str, ...]] = {
    "runc": (),
    "runsc": ("--network=none",),
    "crun": (),
    "youki": (),
    "kata-runtime": (),
}
#: How runtimes are started for containers that find a link in their namespace, where that is another way. gVisor
#: refuses to take over the links of the host's own namespace, and older releases tell it by a file that older kernels
#: (6.6) have in no other, and newer ones (6.11) in every one: with those they never start with a network
#: (https://github.com/google/gvisor/issues/10704; runsc/sandbox/network.go, isRootNS). The file is hidden, from the
#: one command that looks, within mounts of its own. With all of /proc/sys, because what is below its "net" is another
#: folder in each namespace; gVisor asks for one file more, which is given. The namespace is not the host's: it is a
#: container's.
NETWORKED: Mapping[str, str] = {
    "runsc": """#!/bin/sh
hidden='
  lowest=$(cat /proc/sys/vm/mmap_min_addr) &&
  mount -t tmpfs -o nosuid,nodev none /proc/sys && mkdir /proc/sys/vm &&
  echo "$lowest" >/proc/sys/vm/mmap_min_addr && exec "$@"'
for word in "$@"; do
  [ "$word" != start ] || exec unshare --mount sh -c "$hidden" sh {path} "$@"
done
exec {path} "$@"
"""
}
#: The distribution's package of each, where there is one.
PACKAGES: Mapping[str, str] = {"runc": "runc", "runsc": "runsc", "crun": "crun"}
#: Runtimes whose containers share the host's kernel and its view of their files.
SHARES_FILES = frozenset({"runc", "crun", "youki"})


def installed() -> dict[str, str]:
    """The known runtimes that are installed: name → path."""
    return {name: path for name in ARGUMENTS if (path := find_program(name)) is not None}


def daemon_entries(folder: Path) -> dict[str, dict[str, Any]]:
    """The entry ``runtimes`` of a daemon's configuration; ``runc`` is built in and may not be in it.

    Args:
        folder: the daemon's; scripts that start a runtime are written there.
    """
    found = {name: path for name, path in installed().items() if name != "runc"}
    entries = {
        name: {"path": path, "runtimeArgs": list(ARGUMENTS[name])} for name, path in found.items()
    }
    for name, script in NETWORKED.items():
        if name in found:
            path = folder / _networked(name)
            path.write_text(script.format(path=shlex.quote(found[name])))
            path.chmod(0o700)
            entries[_networked(name)] = {"path": str(path), "runtimeArgs": []}
    return entries


def networked(name: str, known: Iterable[str]) -> str:
    """The engine's name of a runtime for a container with a link; an engine of others has it under its own."""
    return _networked(name) if _networked(name) in known else name


def _networked(name: str) -> str:
    return f"{name}-networked"


def remedy(name: str) -> str:
    """The command that installs a runtime; empty where no package of the distribution has it."""
    return f"apt-get install {PACKAGES[name]}" if name in PACKAGES else ""


def version(path: str) -> str:
    """The first line of what a runtime says of its version; empty where it says nothing."""
    program = find_program(path)
    if program is None:
        return ""
    try:
        done = subprocess.run(
            [program, "--version"], capture_output=True, text=True, timeout=10, check=False
        )
    except (OSError, subprocess.SubprocessError):
        return ""
    return first_line(done.stdout)


def first_line(said: str) -> str:
    """Of what a runtime said of its version; empty where it said nothing."""
    return said.strip().splitlines()[0] if said.strip() else ""
