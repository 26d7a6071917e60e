"""The QEMU that is installed on this machine."""

from __future__ import annotations

import functools
import subprocess

from pytest_vperf.machine.preflight import Readiness, find_program

QEMU = "qemu-system-x86_64"


def check_qemu() -> Readiness:
    """Whether QEMU is installed; ``why`` is its path then."""
    path = find_program(QEMU)
    if path is None:
        return Readiness(
            "qemu", False, f"{QEMU} is not installed", "apt-get install qemu-system-x86"
        )
    return Readiness("qemu", True, path)


@functools.lru_cache(maxsize=4)
def qemu_version(path: str) -> str:
    """QEMU's version with its package's, as the first line of ``--version`` has it after "version"."""
    done = subprocess.run(
        [path, "--version"], capture_output=True, text=True, check=False, timeout=60
    )
    return version_of(done.stdout)


def version_of(said: str) -> str:
    """The version in what ``--version`` printed."""
    return said.partition("\n")[0].partition("version ")[2] or "unknown"
