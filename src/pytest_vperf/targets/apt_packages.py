"""Packages of the distribution, fetched and unpacked without being installed.

What is unpacked is what apt vouches for, and nothing beside it: files are named by apt before they are fetched,
compared with the checksums of its signed lists once more, and lie in a folder that no other user may enter.
"""

from __future__ import annotations

import hashlib
import re
import subprocess
from typing import TYPE_CHECKING

from pytest_vperf.targets.base import Unavailable

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

#: Seconds to fetch some hundred megabytes, and to unpack them.
_FETCH, _UNPACK = 600.0, 300.0
#: As root apt would fetch as another user, for whom the folder would have to be open to everybody.
_AS_OURSELVES = ("-o", "APT::Sandbox::User=root")
#: What ``apt-get --print-uris`` prints for a file (apt-get(8)): its address, its name, its size, a checksum.
_PROMISED = re.compile(
    r"^'[^']*' (?P<name>[A-Za-z0-9][^\s/]*\.deb) (?P<size>\d+) (?P<kind>SHA256|SHA512):(?P<hex>[0-9a-f]+)$",
    re.MULTILINE,
)


def fetch(packages: Sequence[str], folder: Path) -> list[Path]:
    """Fetch packages without what they depend on.

    Args:
        packages: their names, or ``NAME=VERSION``, as the machine's apt knows them.
        folder: private to this user; the files are put there.

    Returns:
        the packages' files, in apt's order.

    Raises:
        Unavailable: one cannot be fetched, or is not the one that apt's lists have.
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
