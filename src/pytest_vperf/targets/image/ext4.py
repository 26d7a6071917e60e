"""A root file system as a disk: one ext4 file system in a sparse file, made from a tar file without mounting."""

from __future__ import annotations

import os
import re
import subprocess
import tempfile
from typing import TYPE_CHECKING

from pytest_vperf.machine.preflight import find_program
from pytest_vperf.targets.base import CannotStart, Unavailable

if TYPE_CHECKING:
    from pathlib import Path

_TIMEOUT = 900.0
#: Fixed UUID and hash seed (mke2fs(8), -U and -E hash_seed), so that equal input gives equal files; only the inodes'
#: change and access times differ.
_UUID = "76706572-6600-4000-8000-726f6f740000"
#: No journal: a machine's disk is discarded with it. No lazy initialisation of inode tables while the machine runs.
_OPTIONS = (
    *("-t", "ext4", "-O", "^has_journal", "-m", "0", "-L", "vperf-root", "-U", _UUID),
    *("-E", f"lazy_itable_init=0,hash_seed={_UUID}"),
)
#: Unpacks a tar file into a folder, builds the file system from it, and removes the folder, whoever owns the files.
_MAKE = (
    "tar --extract --numeric-owner --same-owner --same-permissions"
    ' --file "$1" --directory "$2" && shift && folder=$1 && shift && "$@"; status=$?;'
    ' rm -rf -- "$2" "$folder"; exit $status'
)
#: Makes an ordinary user root of a user namespace, with their subordinate users as the image's other users.
_AS_ROOT = ("unshare", "--user", "--map-root-user", "--map-auto", "--")
_FULL = re.compile("Could not allocate|No space left|no free", re.IGNORECASE)


def write_ext4(tar: Path, destination: Path, size: int) -> None:
    """Write an ext4 file system with the content of a tar file.

    Args:
        tar: an uncompressed tar file, as `pytest_vperf.targets.image.tar.TarWriter` writes it.
        destination: a new file; sparse.
        size: of the file system, in bytes; must hold the content.

    Raises:
        Unavailable: a program is missing, or this user may not create files of other users.
        CannotStart: the content does not fit, or the tar file cannot be read.
    """
    make = find_program("mke2fs")
    if make is None:
        raise Unavailable("mke2fs is not installed", remedy="apt-get install e2fsprogs")
    with destination.open("wb") as stream:
        os.truncate(stream.fileno(), size)
    folder = tempfile.mkdtemp(prefix=".tree-", dir=destination.parent)
    command = [make, "-q", "-F", *_OPTIONS, "-d", folder, str(destination)]
    words = ["sh", "-c", _MAKE, "sh", str(tar), folder, *command]
    try:
        _run(words if os.geteuid() == 0 else [*_AS_ROOT, *words], tar, size)
    except BaseException:
        destination.unlink(missing_ok=True)
        raise


def _run(words: list[str], tar: Path, size: int) -> None:
    # Sets the clock of mke2fs (libext2fs).
    environment = {**os.environ, "LC_ALL": "C", "E2FSPROGS_FAKE_TIME": "1672531200"}
    try:
        done = subprocess.run(
            words,
            env=environment,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            errors="replace",
            check=False,
            timeout=_TIMEOUT,
        )
    except FileNotFoundError:
        raise Unavailable(
            f"{words[0]} is not installed", remedy="apt-get install util-linux"
        ) from None
    except subprocess.TimeoutExpired:
        raise CannotStart(f"no disk was built from {tar} within {_TIMEOUT:g} s") from None
    if done.returncode == 0:
        return
    said = " ".join(done.stderr.split())[-300:]
    if words[0] == _AS_ROOT[0] and said.startswith("unshare:"):
        raise Unavailable(
            f"a disk with files of several users cannot be built: {said}",
            remedy="apt-get install uidmap, or make it once as root",
        )
    if _FULL.search(done.stderr):
        raise CannotStart(f"{tar} does not fit into a disk of {size / 2**20:.0f} MiB: {said}")
    raise CannotStart(f"no disk can be built from {tar}: {said}")
