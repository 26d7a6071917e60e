"""The OCI runtimes supported by name, and their entries in the private engine's configuration."""

from __future__ import annotations

import shlex
import subprocess
from dataclasses import dataclass
from hashlib import sha256
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pytest_vperf.machine import cgroup_view
from pytest_vperf.machine.preflight import find_program

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

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
#: What stands in the engine's name of a build, between the runtime's own name and the first digits of its hash.
_BUILD = "-build-"
_NETWORKED = "-networked"
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


@dataclass(frozen=True)
class Build:
    """A runtime by its path, beside those that an engine knows by name.

    Attributes:
        kind: the runtime that it is a build of: ``runc``; if that is not known, its file's name.
        path: of its program, absolute.
        arguments: for each call, before its command.
    """

    kind: str
    path: str
    arguments: tuple[str, ...] = ()

    @classmethod
    def of(cls, words: str, kind: str = "") -> Build:
        """A build from a command line, its path and arguments.

        Args:
            words: with a shell's quotes.
            kind: what it is taken for if neither its name nor its ``--version`` tells.
        """
        path, *arguments = shlex.split(words)
        return cls(kind_of(path) or kind or Path(path).name, path, tuple(arguments))

    @property
    def name(self) -> str:
        """The private engine's name for it."""
        digest = sha256("\0".join((self.path, *self.arguments)).encode())
        return f"{self.kind}{_BUILD}{digest.hexdigest()[:8]}"

    def __str__(self) -> str:
        return shlex.join((self.path, *self.arguments))


def kind_of(path: str) -> str:
    """Which of the runtimes known by name a program is, by its file's name, else by what it says its version is.

    Returns:
        the runtime's name; empty if neither tells.
    """
    said = version(path).partition(" ")[0] if Path(path).name not in ARGUMENTS else Path(path).name
    return said if said in ARGUMENTS else ""


def daemon_entries(folder: Path, builds: Iterable[Build] = ()) -> dict[str, dict[str, Any]]:
    """The entry ``runtimes`` of a daemon's configuration; ``runc`` is built in and must not be listed.

    Args:
        folder: the daemon's; wrapper scripts are written there.
        builds: runtimes to register beside those that are installed.
    """
    entries: dict[str, dict[str, Any]] = {}
    for name, path in installed().items():
        entries |= _entries(folder, name, Build(name, path))
    entries.pop("runc", None)
    for build in builds:
        entries |= _entries(folder, build.name, build)
    return entries


def _entries(folder: Path, name: str, build: Build) -> dict[str, dict[str, Any]]:
    """The entries of one runtime, by their names."""
    words = [*ARGUMENTS.get(build.kind, ()), *build.arguments]
    entries: dict[str, dict[str, Any]] = {name: {"path": build.path, "runtimeArgs": words}}
    point = cgroup_view.hybrid()
    if point is not None and build.kind in SHARES_FILES:
        program = shlex.join((*cgroup_view.hiding(point), build.path))
        hidden = _script(folder / f"{name}{_V1}", f'#!/bin/sh\nexec {program} "$@"\n')
        other = name if build.kind in REFUSES_HYBRID else hidden.name
        entries[other] = {"path": str(hidden), "runtimeArgs": words}
    if build.kind in NETWORKED:
        script = NETWORKED[build.kind].format(path=shlex.quote(build.path))
        wrapper = _script(folder / f"{name}{_NETWORKED}", script)
        entries[wrapper.name] = {"path": str(wrapper), "runtimeArgs": list(build.arguments)}
    return entries


def _script(path: Path, text: str) -> Path:
    path.write_text(text)
    path.chmod(0o700)
    return path


def kind(name: str) -> str:
    """The runtime that an engine's name is one of: ``runc`` for a build of it, or one that is called differently."""
    return name.removesuffix(_NETWORKED).removesuffix(_V1).partition(_BUILD)[0]


def beside(name: str, other: str) -> str:
    """The private engine's name of a runtime that is called here as another one has to be: for comparisons."""
    hidden = other in REFUSES_HYBRID and kind(name) not in REFUSES_HYBRID
    return f"{name}{_V1}" if hidden and cgroup_view.hybrid() is not None else name


def is_hidden(name: str) -> bool:
    """Whether the private engine calls a runtime without version 2 of control groups, by its name for it."""
    hidden = kind(name) in REFUSES_HYBRID or name.endswith(_V1)
    return hidden and cgroup_view.hybrid() is not None


def shares_files(name: str) -> bool:
    """Whether containers of a runtime, by an engine's name for it, share the host's kernel and its view of files."""
    return kind(name) in SHARES_FILES


def has_no_machine(name: str) -> bool:
    """Whether a runtime, by an engine's name for it, is known to start no machine; gVisor's kernel is a process."""
    return shares_files(name) or kind(name) == "runsc"


def networked(name: str, known: Iterable[str]) -> str:
    """The engine's name of a runtime for a container with a link: the wrapper's, if the engine has one."""
    networked = f"{name}{_NETWORKED}"
    return networked if networked in known else name


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


def complaint(build: Build) -> str:
    """Why a build does not even tell its version, in its own words; empty if it does."""
    words = (build.path, *build.arguments, "--version")
    try:
        done = subprocess.run(words, capture_output=True, text=True, timeout=10, check=False)
    except (OSError, subprocess.SubprocessError) as error:
        return str(error)
    said = first_line(done.stderr) or first_line(done.stdout)
    return (said or f"exit status {done.returncode}") if done.returncode else ""


def first_line(said: str) -> str:
    """The first line of a runtime's ``--version`` output; empty if it printed nothing."""
    return said.strip().splitlines()[0] if said.strip() else ""
