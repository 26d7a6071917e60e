"""apt with folders of its own: asks the machine's sources, and changes nothing of the machine's apt or dpkg.

It needs no root. What it knows as installed is nothing, so that what it resolves is a whole system.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from typing import TYPE_CHECKING

from pytest_vperf.targets.base import Unavailable

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence
    from pathlib import Path

#: Seconds for apt to fetch its lists, or some hundred packages.
_TIMEOUT = 900.0
_INSTALLS = re.compile(r"^Inst (\S+) (?:\[[^]]*\] )?\((\S+) ", re.MULTILINE)
_CANDIDATE = re.compile(r"^(\S+):\n(?: .*\n)*?  Candidate: (?!\(none\))\S+", re.MULTILINE)
#: Long enough to be worth saying, short enough for a table.
_WORDS = 300


class PrivateApt:
    """One private apt.

    Args:
        folder: empty; holds lists, packages and what else is made on the way.
        sources: the lines of its sources.list.
        known_lists: package lists and release files that the machine's apt has; what is still right in them need
            not be fetched again.

    Attributes:
        lists: the folder with the package lists, after `update`.
        archives: the folder with the packages, after `download`.
        sources: the sources.list.
    """

    def __init__(
        self, folder: Path, sources: Sequence[str], known_lists: Sequence[Path] = ()
    ) -> None:
        self.folder = folder
        self.lists, self.archives = folder / "lists", folder / "cache/archives"
        for path in (self.lists / "partial", self.archives / "partial", folder / "none"):
            path.mkdir(parents=True)
        for path in (path for path in known_lists if path.is_file()):
            shutil.copy2(path, self.lists / path.name)  # apt asks with the file's date
        self.sources = folder / "sources.list"
        self.sources.write_text("".join(f"{line}\n" for line in sources))
        (folder / "status").touch()
        configuration = folder / "apt.conf"
        configuration.write_text(_configuration(folder))
        self._environment = {
            **os.environ,
            "LC_ALL": "C",
            "DEBIAN_FRONTEND": "noninteractive",
            "APT_CONFIG": str(configuration),
        }

    def update(self) -> None:
        """Fetch the package lists.

        Raises:
            Unavailable: they cannot be fetched.
        """
        self._apt("fetch the package lists", "apt-get", "update", "--error-on=any")

    def known(self, names: Iterable[str]) -> set[str]:
        """Which of these packages the sources have."""
        text = self._apt("look up packages", "apt-cache", "policy", *names)
        return {match[1] for match in _CANDIDATE.finditer(text)}

    def resolve(self, wanted: Iterable[str]) -> dict[str, str]:
        """The packages that an empty system with these would have, with their versions, sorted.

        Raises:
            Unavailable: they do not go together.
        """
        text = self._apt("resolve packages", "apt-get", "install", "--simulate", *wanted)
        return dict(sorted(_INSTALLS.findall(text)))

    def download(self, packages: Mapping[str, str]) -> None:
        """Fetch these packages in these versions.

        Raises:
            Unavailable: they cannot be fetched.
        """
        exact = [f"{name}={version}" for name, version in packages.items()]
        self._apt("fetch the packages", "apt-get", "install", "--download-only", *exact)

    def fetch(self, name: str) -> Path:
        """Fetch one package without what it depends on; where it is.

        Raises:
            Unavailable: it cannot be fetched.
        """
        folder = self.archives.parent / f"single-{name}"
        folder.mkdir()
        self._apt("fetch a package", "apt-get", "download", name, folder=folder)
        return next(folder.glob("*.deb"))

    def _apt(self, purpose: str, program: str, *words: str, folder: Path | None = None) -> str:
        command = [program, "-q", "-y", *words] if program == "apt-get" else [program, *words]
        try:
            done = subprocess.run(
                command,
                env=self._environment,
                cwd=folder,
                stdin=subprocess.DEVNULL,
                capture_output=True,
                text=True,
                errors="replace",
                check=False,
                timeout=_TIMEOUT,
            )
        except subprocess.TimeoutExpired as error:
            raise Unavailable(f"apt could not {purpose} within {error.timeout:g} s") from error
        if done.returncode:
            errors = [line for line in done.stderr.splitlines() if line.startswith("E: ")]
            words_of_apt = " ".join(errors or done.stderr.split("\n"))[:_WORDS].strip()
            raise Unavailable(f"apt could not {purpose}: {words_of_apt or 'it said nothing'}")
        return done.stdout


def _configuration(folder: Path) -> str:
    """How it fetches is the machine's (proxies, certificates, retries); where it keeps things, and hooks, are not."""
    done = subprocess.run(
        ["apt-config", "dump"], capture_output=True, text=True, check=False, timeout=60
    )
    machine = [
        line
        for line in done.stdout.splitlines()
        if line.startswith("Acquire::") and not line.startswith("Acquire::IndexTargets")
    ]
    own = {
        "Dir::State": folder,
        "Dir::State::lists": folder / "lists",
        "Dir::State::status": folder / "status",
        "Dir::State::extended_states": folder / "extended_states",
        "Dir::Cache": folder / "cache",
        "Dir::Cache::archives": folder / "cache/archives",
        "Dir::Log": folder / "none",
        "Dir::Etc::sourcelist": folder / "sources.list",
        "Dir::Etc::sourceparts": folder / "none",
        "Dir::Etc::parts": folder / "none",
        "Dir::Etc::main": "/dev/null",
        "Acquire::Languages": "none",
        "APT::Install-Recommends": "false",
        # As root apt would fetch as another user, who may not write into this folder.
        "APT::Sandbox::User": "root",
        "Debug::NoLocking": "true",
    }
    return "\n".join([*machine, *(f'{name} "{value}";' for name, value in own.items()), ""])
