"""The distribution's own package sources of this machine, as apt has them configured, for a private use of apt.

The sources, keys, proxies and pins are the machine's. One thing is added: the components in which Debian and
Ubuntu keep netperf and lmbench, from the same sources, for the build alone; nothing in /etc is changed.
"""

from __future__ import annotations

import re
import subprocess
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from pytest_vperf.machine.cache import file_sha256
from pytest_vperf.machine.preflight import find_program
from pytest_vperf.targets.base import Unavailable

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

#: Where a distribution, named as its release files name it, keeps the tools: netperf is not free software in the
#: sense of Debian (https://packages.debian.org/source/netperf), and "universe" is Ubuntu's for what Debian maintains.
COMPONENTS: Mapping[str, tuple[str, ...]] = {
    "Debian": ("main", "non-free"),
    "Ubuntu": ("main", "universe", "multiverse"),
}
_SOURCE_FILES = (Path("/etc/apt/sources.list"), Path("/etc/apt/sources.list.d"))
#: Pods are machines of this kind, and so is what the host can run.
_ARCHITECTURE = "amd64"
_TARGET = "$(REPO_URI) $(RELEASE) $(ORIGIN) $(CODENAME) $(ARCHITECTURE) $(FILENAME)"
#: The options of a source that decide whose signature is believed (sources.list(5)).
_TRUST = ("signed-by", "trusted")


@dataclass(frozen=True)
class Sources:
    """The sources an image is built from.

    Attributes:
        lines: for a sources.list, sorted.
        distribution: ``Debian`` or ``Ubuntu``.
        codename: of the release, e.g. ``bookworm``.
        releases: the SHA-256 of each release file that apt has; they name the hash of every package list.
        lists: those release files, and the package lists that apt has.
    """

    lines: tuple[str, ...]
    distribution: str
    codename: str
    releases: tuple[str, ...]
    lists: tuple[Path, ...]


def configured() -> Sources:
    """The machine's own sources of its distribution, those of others left out.

    Raises:
        Unavailable: there is no apt, it cannot be asked, or it has no package lists of the distribution.
    """
    if find_program("apt-get") is None:
        raise Unavailable("this is not Debian or Ubuntu: there is no apt-get")
    done = subprocess.run(
        ["apt-get", "indextargets", "--format", _TARGET, "Created-By: Packages"],
        capture_output=True,
        text=True,
        check=False,
        timeout=60,
    )
    if done.returncode:
        words = done.stderr.strip().splitlines() or ["no reason"]
        raise Unavailable(f"apt's sources cannot be read: {words[-1]}")
    trust = _trust()
    lines, releases, lists, names = set(), set(), set(), {}
    others = set()
    for line in done.stdout.splitlines():
        uri, suite, origin, codename, architecture, file = (*line.split(" ", 5), *6 * [""])[:6]
        release = _release_file(Path(file), suite)
        if origin not in COMPONENTS or release is None:
            continue
        if architecture != _ARCHITECTURE:
            others.add(architecture)
            continue
        options = " ".join([f"arch={architecture}", *trust.get(uri.rstrip("/"), ())])
        lines.add(f"deb [{options}] {uri} {suite} {' '.join(COMPONENTS[origin])}")
        releases.add(file_sha256(release))
        lists |= {release, Path(file)}
        # "bookworm" comes before "bookworm-security", which only has some of the packages.
        names[codename] = origin
    if others and not lines:
        found = ", ".join(sorted(others))
        raise Unavailable(
            f"the packages of this machine are for {found}, and the image with the tools is made for"
            f" {_ARCHITECTURE} alone"
        )
    if not lines:
        raise Unavailable(
            "apt has no package lists of Debian or Ubuntu", remedy="apt-get update, as root"
        )
    codename = min(names, key=len)
    return Sources(
        tuple(sorted(lines)),
        names[codename],
        codename,
        tuple(sorted(releases)),
        tuple(sorted(lists)),
    )


def _release_file(packages: Path, suite: str) -> Path | None:
    """The release file of a package list: beside it in apt's folder, named after URI and suite."""
    escaped = suite.replace("/", "_")
    stem, found, _ = packages.name.rpartition(f"_dists_{escaped}_")
    for name in ("InRelease", "Release") if found else ():
        path = packages.with_name(f"{stem}_dists_{escaped}_{name}")
        if path.is_file():
            return path
    return None


def _trust() -> dict[str, tuple[str, ...]]:
    """By URI, the options of its source that say which key signs it; apt does not print them."""
    found: dict[str, tuple[str, ...]] = {}
    for path in _source_files():
        text = path.read_text(errors="replace")
        read = _of_stanzas(text) if path.suffix == ".sources" else _of_lines(text)
        for uri, options in read:
            kept = tuple(f"{name}={options[name]}" for name in _TRUST if options.get(name))
            found[uri.rstrip("/")] = kept
    return found


def _source_files() -> Iterator[Path]:
    for path in _SOURCE_FILES:
        if path.is_dir():
            yield from sorted(
                each for each in path.iterdir() if each.suffix in (".list", ".sources")
            )
        elif path.is_file():
            yield path


def _of_lines(text: str) -> Iterable[tuple[str, dict[str, str]]]:
    """URI and options of each line ``deb [NAME=VALUE …] URI SUITE COMPONENT…``."""
    for match in re.finditer(r"^\s*deb\s+(?:\[([^\]]*)\]\s*)?(\S+)", text, re.MULTILINE):
        words = (match[1] or "").split()
        yield match[2], dict(word.split("=", 1) for word in words if "=" in word)


def _of_stanzas(text: str) -> Iterable[tuple[str, dict[str, str]]]:
    """URIs and options of each stanza; a key that is written into the stanza itself is not taken over."""
    for stanza in re.split(r"\n\s*\n", text):
        fields: dict[str, str] = {}
        for match in re.finditer(r"^([A-Za-z-]+):[ \t]*(.*(?:\n[ \t]+.*)*)", stanza, re.MULTILINE):
            fields[match[1].lower()] = match[2].strip()
        if "-----BEGIN" in fields.get("signed-by", ""):
            del fields["signed-by"]
        fields["signed-by"] = ",".join(fields.get("signed-by", "").replace(",", " ").split())
        for uri in fields.get("uris", "").split():
            yield uri, fields
