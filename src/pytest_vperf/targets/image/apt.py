"""A private apt that uses the machine's package sources, and packages fetched and unpacked without installing.

The sources, keys, proxies and pins are the machine's; only the components in which Debian and Ubuntu keep netperf and
lmbench are added, for the build alone. Nothing of the machine's apt or dpkg is changed, and no root is needed. The
private apt has nothing installed, so that it resolves a whole system.

Only files that apt vouches for are unpacked: apt names them before the download, they are checked again against its
signed lists, and their folder is closed to other users.
"""

from __future__ import annotations

import hashlib
import os
import re
import shutil
import subprocess
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from pytest_vperf.machine.cache import file_sha256
from pytest_vperf.machine.preflight import find_program
from pytest_vperf.targets.base import Unavailable

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence


#: Seconds for apt to fetch its lists, or some hundred packages.
_TIMEOUT = 900.0
_INSTALLS = re.compile(r"^Inst (\S+) (?:\[[^]]*\] )?\((\S+) ", re.MULTILINE)
_CANDIDATE = re.compile(r"^(\S+):\n(?: .*\n)*?  Candidate: (?!\(none\))\S+", re.MULTILINE)
#: Most characters quoted from apt: long enough to be useful, short enough for a table.
_WORDS = 300


class PrivateApt:
    """A private apt.

    Args:
        folder: empty; for lists, packages and intermediate files.
        sources: the lines of its sources.list.
        known_lists: the machine's package lists and release files; current ones are not fetched again.

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
            shutil.copy2(path, self.lists / path.name)  # apt sends the file's date
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
            "TMPDIR": str(folder),
        }

    def update(self) -> None:
        """Fetch the package lists.

        Raises:
            Unavailable: they cannot be fetched.
        """
        self._apt("fetch the package lists", "apt-get", "update", "--error-on=any")

    def known(self, names: Iterable[str]) -> set[str]:
        """Those of these packages that the sources have."""
        text = self._apt("look up packages", "apt-cache", "policy", *names)
        return {match[1] for match in _CANDIDATE.finditer(text)}

    def resolve(self, wanted: Iterable[str]) -> dict[str, str]:
        """All packages, with versions, that an empty system needs for these; sorted.

        Raises:
            Unavailable: they cannot be installed together.
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
        """Fetch one package without its dependencies; return its path.

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
    """An apt.conf with the machine's settings for fetching (proxies, certificates, …), own folders and no hooks."""
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
        # Run by root, apt would fetch as another user, who may not write to this folder.
        "APT::Sandbox::User": "root",
        "Debug::NoLocking": "true",
    }
    return "\n".join([*machine, *(f'{name} "{value}";' for name, value in own.items()), ""])


#: Seconds to fetch some hundred megabytes, and to unpack them.
_FETCH, _UNPACK = 600.0, 300.0
#: Run by root, apt would fetch as another user, and the folder would have to be open to all.
_AS_OURSELVES = ("-o", "APT::Sandbox::User=root")
#: Output of ``apt-get --print-uris`` for a file (apt-get(8)): its address, name, size and checksum.
_PROMISED = re.compile(
    r"^'[^']*' (?P<name>[A-Za-z0-9][^\s/]*\.deb) (?P<size>\d+) (?P<kind>SHA256|SHA512):(?P<hex>[0-9a-f]+)$",
    re.MULTILINE,
)


def fetch(packages: Sequence[str], folder: Path) -> list[Path]:
    """Fetch packages without their dependencies.

    Args:
        packages: names known to the machine's apt, or ``NAME=VERSION``.
        folder: for the files; private to this user.

    Returns:
        The packages' files, in apt's order.

    Raises:
        Unavailable: one cannot be fetched, or differs from apt's lists.
    """
    promised = list(_PROMISED.finditer(_apt(folder, "download", "--print-uris", *packages)))
    if len(promised) != len(packages):
        raise Unavailable(f"apt has no checksums for {' '.join(packages)}", remedy="apt-get update")
    _apt(folder, "download", *packages)
    return [_verified(folder / each["name"], each) for each in promised]


def unpack(package: Path, folder: Path) -> None:
    """Unpack a package's files into a folder.

    Raises:
        Unavailable: it is damaged, or the folder cannot be written.
    """
    _call(["dpkg-deb", "-x", str(package), str(folder)], f"unpack {package.name}", _UNPACK)


def _apt(folder: Path, *words: str) -> str:
    return _call(
        ["apt-get", "-q", *_AS_OURSELVES, *words], f"fetch {words[-1]}", _FETCH, folder=folder
    )


def _verified(path: Path, promise: re.Match[str]) -> Path:
    digest = hashlib.new(promise["kind"].lower())
    try:
        size = path.lstat().st_size
        with path.open("rb") as stream:
            while chunk := stream.read(1 << 20):
                digest.update(chunk)
    except OSError as error:
        raise Unavailable(f"apt did not fetch {path.name}: {error.strerror}") from error
    if (size, digest.hexdigest()) != (int(promise["size"]), promise["hex"]):
        raise Unavailable(
            f"{path.name} is not what apt's lists have: its size is {size} bytes and its {promise['kind']}"
            f" {digest.hexdigest()[:16]}…, not {promise['size']} and {promise['hex'][:16]}…",
            remedy="apt-get update",
        )
    return path


def _call(argv: Sequence[str], purpose: str, seconds: float, folder: Path | None = None) -> str:
    try:
        done = subprocess.run(
            argv,
            cwd=folder,
            env={**os.environ, "TMPDIR": str(folder)} if folder else None,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            errors="replace",
            timeout=seconds,
            check=False,
        )
    except FileNotFoundError:
        raise Unavailable(f"this is not Debian or Ubuntu: there is no {argv[0]}") from None
    except subprocess.TimeoutExpired:
        raise Unavailable(f"{argv[0]} could not {purpose} within {seconds:g} s") from None
    if done.returncode:
        lines = [line for line in done.stderr.splitlines() if line.strip()]
        said = lines[-1] if lines else f"it said nothing (exit status {done.returncode})"
        raise Unavailable(f"{argv[0]} could not {purpose}: {said[:300]}")
    return done.stdout


#: Distribution, as named in its release files → components with the tools. netperf is in Debian's non-free
#: (https://packages.debian.org/source/netperf), and Ubuntu's "universe" has what Debian maintains.
COMPONENTS: Mapping[str, tuple[str, ...]] = {
    "Debian": ("main", "non-free"),
    "Ubuntu": ("main", "universe", "multiverse"),
}
_SOURCE_FILES = (Path("/etc/apt/sources.list"), Path("/etc/apt/sources.list.d"))
#: The architecture of pods, and of programs that the host can run.
_ARCHITECTURE = "amd64"
_TARGET = "$(REPO_URI) $(RELEASE) $(ORIGIN) $(CODENAME) $(ARCHITECTURE) $(FILENAME)"
#: The options of a source that decide whose signature is trusted (sources.list(5)).
_TRUST = ("signed-by", "trusted")


@dataclass(frozen=True)
class Sources:
    """The sources an image is built from.

    Attributes:
        lines: for a sources.list, sorted.
        distribution: ``Debian`` or ``Ubuntu``.
        codename: the release's, e.g. ``bookworm``.
        releases: SHA-256 of each of apt's release files, which contain the hashes of all package lists.
        lists: those release files, and apt's package lists.
    """

    lines: tuple[str, ...]
    distribution: str
    codename: str
    releases: tuple[str, ...]
    lists: tuple[Path, ...]


def configured() -> Sources:
    """The machine's sources of Debian or Ubuntu; third-party sources are left out.

    Raises:
        Unavailable: there is no apt, it fails, or it has no package lists of Debian or Ubuntu.
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
        # "bookworm" is preferred to "bookworm-security", which has only some of the packages.
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
    """The release file of a package list, beside it in apt's folder; ``None`` if missing."""
    escaped = suite.replace("/", "_")
    stem, found, _ = packages.name.rpartition(f"_dists_{escaped}_")
    for name in ("InRelease", "Release") if found else ():
        path = packages.with_name(f"{stem}_dists_{escaped}_{name}")
        if path.is_file():
            return path
    return None


def _trust() -> dict[str, tuple[str, ...]]:
    """URI → the options of its source that name the signing key, which apt does not print."""
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
    """URIs and options of each stanza; a key embedded in the stanza is ignored."""
    for stanza in re.split(r"\n\s*\n", text):
        fields: dict[str, str] = {}
        for match in re.finditer(r"^([A-Za-z-]+):[ \t]*(.*(?:\n[ \t]+.*)*)", stanza, re.MULTILINE):
            fields[match[1].lower()] = match[2].strip()
        if "-----BEGIN" in fields.get("signed-by", ""):
            del fields["signed-by"]
        fields["signed-by"] = ",".join(fields.get("signed-by", "").replace(",", " ").split())
        for uri in fields.get("uris", "").split():
            yield uri, fields
