"""The OCI runtimes that are known by name, and how an engine of ours is told of them."""

from __future__ import annotations

import subprocess
from typing import TYPE_CHECKING, Any

from pytest_vperf.machine.preflight import find_program

if TYPE_CHECKING:
    from collections.abc import Mapping

#: The arguments each runtime needs in an engine of ours. gVisor's own network stack wants an interface to
#: take over and refuses to start without one; our engine has no network, so it is told not to look.
ARGUMENTS: Mapping[str, tuple[str, ...]] = {
    "runc": (),
    "runsc": ("--network=none",),
    "crun": (),
    "youki": (),
    "kata-runtime": (),
}
#: The distribution's package of each, where there is one.
PACKAGES: Mapping[str, str] = {"runc": "runc", "runsc": "runsc", "crun": "crun"}
#: Runtimes whose containers share the host's kernel and its view of their files.
SHARES_FILES = frozenset({"runc", "crun", "youki"})


def installed() -> dict[str, str]:
    """The known runtimes that are installed: name → path."""
    return {name: path for name in ARGUMENTS if (path := find_program(name)) is not None}


def daemon_entries() -> dict[str, dict[str, Any]]:
    """The entry ``runtimes`` of a daemon's configuration; ``runc`` is built in and may not be in it."""
    return {
        name: {"path": path, "runtimeArgs": list(ARGUMENTS[name])}
        for name, path in installed().items()
        if name != "runc"
    }


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
    return done.stdout.strip().splitlines()[0] if done.stdout.strip() else ""
