"""A bare root file system around the distribution's static busybox."""

from __future__ import annotations

import io
import subprocess
import tarfile
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING

from pytest_vperf.machine import cache
from pytest_vperf.machine.preflight import find_program
from pytest_vperf.targets.base import Unavailable
from pytest_vperf.targets.image import apt
from pytest_vperf.targets.image.elf import read_elf

if TYPE_CHECKING:
    from collections.abc import Sequence

#: Changed whenever `write_tar` changes its output, so that an older tree in the cache is not used instead.
LAYOUT = "busybox rootfs 1"

_REMEDY = "apt-get install busybox-static"
_INSTALLED = (Path("/bin/busybox"), Path("/usr/bin/busybox"))
_FOLDERS = {
    **dict.fromkeys(["bin", "dev", "etc", "proc", "run", "sbin", "sys", "usr", "var"], 0o755),
    **dict.fromkeys(["usr/bin", "usr/sbin"], 0o755),
    "root": 0o700,
    "tmp": 0o1777,
    "var/tmp": 0o1777,
}
_FILES = {
    "etc/passwd": "root:x:0:0:root:/root:/bin/sh\n"
    "nobody:x:65534:65534:nobody:/nonexistent:/bin/false\n",
    "etc/group": "root:x:0:\nnogroup:x:65534:\n",
    "etc/hosts": "127.0.0.1 localhost\n::1 localhost\n",
    "etc/resolv.conf": "",
}


def find() -> Path:
    """A static busybox: the installed one, or else the distribution's package, unpacked into the cache.

    Raises:
        Unavailable: none is installed, and the package cannot be fetched.
    """
    for path in _INSTALLED:
        if path.is_file() and is_static(path):
            return path
    for tool in ("apt-get", "dpkg-deb"):
        if find_program(tool) is None:
            raise Unavailable("no static busybox is installed", remedy=_REMEDY)
    return cache.entry("busybox", "package", _fetch) / "busybox"


def _fetch(draft: Path) -> None:
    """Unpack the package without installing it, which needs no root."""
    # Not in $TMPDIR, which may be in another user's folder (`sudo -E`).
    with tempfile.TemporaryDirectory(prefix=".", dir=draft) as temporary:
        folder = Path(temporary)
        try:
            for package in apt.fetch(["busybox-static"], folder):
                apt.unpack(package, folder / "tree")
        except Unavailable as error:
            raise Unavailable(
                f"no static busybox is installed, and the package cannot be fetched: {error.reason}",
                remedy=_REMEDY,
            ) from error
        found = [path for path in (folder / "tree").rglob("bin/busybox") if path.is_file()]
        if not found or not is_static(found[0]):
            raise Unavailable("the package busybox-static has no static busybox", remedy=_REMEDY)
        (draft / "busybox").write_bytes(found[0].read_bytes())
        (draft / "busybox").chmod(0o755)


def is_static(path: Path) -> bool:
    """Whether an ELF program needs no dynamic loader."""
    elf = read_elf(path.read_bytes())
    return elf is not None and not elf.interpreter


def applets(program: Path) -> list[str]:
    """The paths of a busybox's applets, e.g. ``bin/sh``, sorted."""
    return sorted(set(_ask(program, "--list-full").split()) - {"bin/busybox"})


def version(program: Path) -> str:
    """The version of a busybox, e.g. ``v1.35.0``."""
    words = _ask(program).split()
    return words[1] if len(words) > 1 else "of unknown version"


def _ask(program: Path, *argv: str) -> str:
    done = subprocess.run([program, *argv], capture_output=True, text=True, timeout=10, check=False)
    return done.stdout


def write_tar(program: Path, names: Sequence[str], destination: Path) -> None:
    """Write the tree as a tar file, owned by root, with all times 0, sorted: equal inputs give equal bytes."""
    entries: dict[str, tuple[tarfile.TarInfo, bytes]] = {}

    def add(name: str, mode: int, *, kind: bytes = tarfile.REGTYPE, data: bytes = b"") -> None:
        entry = tarfile.TarInfo(name)
        entry.type, entry.mode, entry.size = kind, mode, len(data)
        entry.uname = entry.gname = "root"
        entries[name] = entry, data

    for name, mode in _FOLDERS.items():
        add(name, mode, kind=tarfile.DIRTYPE)
    for name, text in _FILES.items():
        add(name, 0o644, data=text.encode())
    add("bin/busybox", 0o755, data=program.read_bytes())
    for name in names:
        add(name, 0o777, kind=tarfile.SYMTYPE)
        entries[name][0].linkname = "/bin/busybox"
    with tarfile.open(destination, "w:", format=tarfile.GNU_FORMAT) as archive:
        for name in sorted(entries):
            entry, data = entries[name]
            archive.addfile(entry, io.BytesIO(data))
