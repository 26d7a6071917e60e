"""The versions of what is installed to start targets: machines of one type are to have the same."""

from __future__ import annotations

import re
import subprocess
from concurrent.futures import ThreadPoolExecutor

from pytest_vperf.machine.preflight import find_program
from pytest_vperf.targets.container import runtimes
from pytest_vperf.targets.pod import QEMU

#: Seconds for a program to tell its version.
_TELLING = 5.0
#: A version in a line such as ``runc version 1.1.5+ds1`` or ``Docker version 20.10.24+dfsg1, build 297e128``.
_VERSION = re.compile(r"\d+\.[\w.+~-]+")


def installed() -> dict[str, str]:
    """The version of each program that starts targets, by its name; those that are not installed are left out."""
    names = {"docker": "dockerd", "qemu": QEMU}
    paths = {name: find_program(program) for name, program in names.items()} | runtimes.installed()
    found = {name: path for name, path in paths.items() if path is not None}
    if not found:
        return {}
    with ThreadPoolExecutor(len(found)) as pool:
        return dict(zip(found, pool.map(_version, found.values()), strict=True))


def _version(path: str) -> str:
    try:
        done = subprocess.run(
            [path, "--version"],
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            errors="replace",
            timeout=_TELLING,
            check=False,
        )
    except (OSError, subprocess.TimeoutExpired):
        return "unknown"
    found = _VERSION.search(runtimes.first_line(done.stdout))
    return found[0].rstrip(".") if found else "unknown"
