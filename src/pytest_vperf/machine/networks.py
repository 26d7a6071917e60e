"""The namespaces and links of runs: how they are named, found and removed.

A run's namespaces are named ``vperf-ID-WHAT`` (seen by ``ip netns``). Its links are named ``vpIDWHAT``: a link's name
has at most 15 characters (IFNAMSIZ, Linux include/uapi/linux/if.h), of which the run's ID takes 8. Links inside a
run's namespace are removed with it; the host's end may remain.
"""

from __future__ import annotations

import contextlib
import os
import subprocess
from pathlib import Path

from pytest_vperf.machine.preflight import find_program

#: The longest name of a link.
LONGEST = 15
#: Where ``ip netns`` keeps the names (ip-netns(8)).
NAMESPACES = Path("/run/netns")
_LINKS = Path("/sys/class/net")
_ALIAS = "pytest-vperf "


def namespace_name(run: str, what: str) -> str:
    """The name of a run's namespace."""
    return f"vperf-{run}-{what}"


def link_name(run: str, what: str) -> str:
    """The name of a run's link.

    Raises:
        ValueError: it would be too long for the kernel.
    """
    name = f"vp{run}{what}"
    if len(name) > LONGEST:
        raise ValueError(f"{name} is longer than a link's name can be, {LONGEST} characters")
    return name


def namespaces_of(run: str) -> list[str]:
    """The names of a run's namespaces."""
    return _beginning(NAMESPACES, namespace_name(run, ""))


def links_of(run: str) -> list[str]:
    """The names of a run's links in this process's network namespace."""
    return _beginning(_LINKS, link_name(run, ""))


def alias(folder: Path) -> str:
    """The alias of a run's link (ip-link(8)): it names the run's folder, so that the link is recognised later."""
    return f"{_ALIAS}{folder}"


def marked() -> dict[str, Path]:
    """The links in this process's network namespace with such an alias → the run's folder."""
    found = {}
    for name in _beginning(_LINKS, link_name("", "")):
        with contextlib.suppress(OSError):  # gone meanwhile
            said = (_LINKS / name / "ifalias").read_text(errors="replace").strip()
            if said.startswith(_ALIAS):
                found[name] = Path(said.removeprefix(_ALIAS))
    return found


def _beginning(folder: Path, prefix: str) -> list[str]:
    try:
        names = os.listdir(folder)  # noqa: PTH208 - names are all that is wanted
    except OSError:
        return []
    return sorted(name for name in names if name.startswith(prefix))


def remove_namespace(name: str) -> str:
    """Remove a namespace's name; return the system's error, otherwise empty."""
    return "" if not (NAMESPACES / name).exists() else _ip("netns", "delete", name)


def remove_link(name: str) -> str:
    """Remove a link; return the system's error, otherwise empty. One that is already gone is no error."""
    said = _ip("link", "delete", name)
    return said if (_LINKS / name).exists() else ""


def _ip(*words: str) -> str:
    program = find_program("ip") or "ip"
    try:
        done = subprocess.run([program, *words], capture_output=True, text=True, check=False)
    except OSError as error:
        return f"ip: {error.strerror}"
    return " ".join(done.stderr.split()) if done.returncode else ""
