"""The OCI runtimes supported by name, and their entries in the private engine's configuration."""

from __future__ import annotations

import shlex
import subprocess
from typing import TYPE_CHECKING, Any

from pytest_vperf.machine import cgroup_view
from pytest_vperf.machine.preflight import find_program

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping
    from pathlib import Path

#: The arguments that each runtime needs in the private engine. gVisor's own network stack refuses to start without an
#: interface to take over, and that engine has no network.
ARGUMENTS: Mapping[str, tuple[str, ...]] = {
    "runc": (),
    "runsc": ("--network=none",),
    "crun": (),
    "youki": (),
    "kata-runtime": (),
}
#: Wrappers for runtimes that need one when their container's namespace already has a link. gVisor refuses to take
#: over links of the host's namespace. Older releases recognise it by a file that older kernels (6.6) have in the
#: host's namespace alone, but newer ones (6.11) in all: with those they never start with a network
#: (https://github.com/google/gvisor/issues/10704; runsc/sandbox/network.go, isRootNS). The namespace here is always a
#: container's, so the file is hidden from the one command that checks, in a private mount namespace. All of /proc/sys
#: is hidden, because "net" in it differs by namespace; the one other file there that gVisor reads is provided.
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
#: Runtimes that refuse a machine with hybrid control groups, see `pytest_vperf.machine.cgroup_view`. The private
#: engine calls them in a mount namespace where they work; others that are compared with them are called likewise,
#: under a name with this suffix.
REFUSES_HYBRID = frozenset({"crun"})
_V1 = "-v1"
#: The distribution's package of each runtime, if any.
PACKAGES: Mapping[str, str] = {"runc": "runc", "runsc": "runsc", "crun": "crun"}
#: Where others come from.
_ELSEWHERE: Mapping[str, str] = {
    "youki": "cargo install youki, or a release of https://github.com/youki-dev/youki",
    "kata-runtime": "a release of https://github.com/kata-containers/kata-containers",
}
#: Runtimes whose containers share the host's kernel and its view of their files.
SHARES_FILES = frozenset({"runc", "crun", "youki"})


def installed() -> dict[str, str]:
    """The known runtimes that are installed: name → path."""
    return {name: path for name in ARGUMENTS if (path := find_program(name)) is not None}


def daemon_entries(folder: Path) -> dict[str, dict[str, Any]]:
    """The entry ``runtimes`` of a daemon's configuration; ``runc`` is built in and must not be listed.

    Args:
        folder: the daemon's; wrapper scripts are written there.
    """
    found = {name: path for name, path in installed().items() if name != "runc"}
    entries = {
        name: {"path": path, "runtimeArgs": list(ARGUMENTS[name])} for name, path in found.items()
    }
    if (point := cgroup_view.hybrid()) is not None:
        for name, program in installed().items():
            if name not in SHARES_FILES:
                continue
            hidden = folder / f"{name}{_V1}"
            words = shlex.join((*cgroup_view.hiding(point), program))
            hidden.write_text(f'#!/bin/sh\nexec {words} "$@"\n')
            hidden.chmod(0o700)
            entry: dict[str, Any] = {"path": str(hidden), "runtimeArgs": list(ARGUMENTS[name])}
            entries[name if name in REFUSES_HYBRID else hidden.name] = entry
    for name, script in NETWORKED.items():
        if name in found:
            path = folder / _networked(name)
            path.write_text(script.format(path=shlex.quote(found[name])))
            path.chmod(0o700)
            entries[_networked(name)] = {"path": str(path), "runtimeArgs": []}
    return entries


def beside(name: str, other: str) -> str:
    """The private engine's name of a runtime that is called here as another one has to be: for comparisons."""
    hidden = other in REFUSES_HYBRID and name not in REFUSES_HYBRID
    return f"{name}{_V1}" if hidden and cgroup_view.hybrid() is not None else name


def is_hidden(name: str) -> bool:
    """Whether the private engine calls a runtime without version 2 of control groups, by its name for it."""
    return (name in REFUSES_HYBRID or name.endswith(_V1)) and cgroup_view.hybrid() is not None


def shares_files(name: str) -> bool:
    """Whether containers of a runtime, by an engine's name for it, share the host's kernel and its view of files."""
    return name.removesuffix(_V1) in SHARES_FILES


def networked(name: str, known: Iterable[str]) -> str:
    """The engine's name of a runtime for a container with a link: the wrapper's, if the engine has one."""
    return _networked(name) if _networked(name) in known else name


def _networked(name: str) -> str:
    return f"{name}-networked"


def remedy(name: str) -> str:
    """The command that installs a runtime, or where there is one; empty if it is not known."""
    if name in PACKAGES:
        return f"apt-get install {PACKAGES[name]}"
    return _ELSEWHERE.get(name, "")


def version(path: str) -> str:
    """The first line of a runtime's ``--version``; empty if it fails."""
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
    """The first line of a runtime's ``--version`` output; empty if it printed nothing."""
    return said.strip().splitlines()[0] if said.strip() else ""
