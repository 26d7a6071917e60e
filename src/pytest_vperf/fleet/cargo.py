"""What a machine needs of this one to run tests: the project's files and wheels, sent once and kept by content.

A cargo is a tar archive. Its name is the hash of its bytes, which have no times and no owners, so that a machine that
has it is sent nothing. There it is a folder of the cache; each shard runs in a copy of its own.
"""

from __future__ import annotations

import base64
import contextlib
import functools
import hashlib
import io
import json
import os
import re
import shutil
import subprocess
import sys
import tarfile
import time
import zlib
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pytest_vperf import foreign_text
from pytest_vperf.fleet.lines import SILENT
from pytest_vperf.machine import cache

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

#: Most bytes of a cargo: tests, thresholds, a build or two.
MOST = 64 << 20
#: The kind of entry in the cache of a machine, and the seconds that one is kept that no shard uses.
_KIND, _KEPT = "fleet", 14 * 86400.0
#: Seconds for pip to install wheels: fewer than those after which a machine is lost, since it says nothing meanwhile.
_INSTALLING = SILENT - 10.0


class CannotSend(Exception):
    """The files of a project cannot be sent; says why, without a full stop."""


@dataclass(frozen=True)
class Cargo:
    """Files for machines.

    Attributes:
        digest: SHA-256 of the archive.
        names: of the project's files, from its root.
        line: the archive, as it is sent to a machine.
    """

    digest: str
    names: frozenset[str]
    line: bytes


def pack(root: Path, files: Iterable[Path], wheels: Iterable[Path] = ()) -> Cargo:
    """Make a cargo.

    Args:
        root: the project's folder.
        files: of the project; folders and what is neither file nor link are left out.
        wheels: to be installed for its tests.

    Raises:
        CannotSend: there is too much, or a file cannot be read.
    """
    raw = io.BytesIO()
    names = set()
    with tarfile.open(fileobj=raw, mode="w:", format=tarfile.GNU_FORMAT) as archive:
        try:
            for path in sorted(set(files)):
                name = path.relative_to(root).as_posix()
                if _add(archive, f"files/{name}", path, root):
                    names.add(name)
                if raw.tell() > MOST:
                    raise CannotSend(f"{root} has more than {MOST >> 20} MiB of files")
            for path in sorted(set(wheels)):
                _add(archive, f"wheels/{path.name}", path, root)
        except OSError as error:
            raise CannotSend(f"{error.filename}: {error.strerror}") from None
    if raw.tell() > MOST:
        raise CannotSend(f"{root} and the wheels have more than {MOST >> 20} MiB")
    data = base64.b64encode(zlib.compress(raw.getvalue(), 1))
    line = b'{"cargo": "%s"}\n' % data
    return Cargo(hashlib.sha256(raw.getvalue()).hexdigest(), frozenset(names), line)


def _add(archive: tarfile.TarFile, name: str, path: Path, root: Path) -> bool:
    """Add a file as it is, or a link that stays within the project; of another link, the file that it leads to."""
    info = tarfile.TarInfo(name)
    if path.is_symlink():
        leads = path.readlink()
        if not leads.is_absolute() and path.resolve().is_relative_to(root.resolve()):
            info.type, info.linkname = tarfile.SYMTYPE, str(leads)
            archive.addfile(info)
            return True
    if not path.is_file():
        return False
    content = path.read_bytes()
    info.size, info.mode = len(content), 0o755 if os.access(path, os.X_OK) else 0o644
    archive.addfile(info, io.BytesIO(content))
    return True


# On a machine.


def kept(digest: str) -> Path | None:
    """The folder of a cargo that this machine has; ``None`` if it does not.

    Raises:
        PermissionError: the cache is not this user's alone.
    """
    folder = cache.root() / _KIND / digest
    try:
        os.utime(folder)
    except OSError:
        return None
    return folder


def keep(digest: str, line: bytes) -> Path:
    """Make the folder of a cargo.

    Args:
        digest: its name.
        line: what was sent.

    Raises:
        ValueError: it is not what its name says.
        OSError: it cannot be written, or its wheels cannot be installed.
        subprocess.TimeoutExpired: they take too long.
    """
    try:
        raw = zlib.decompress(base64.b64decode(json.loads(line)["cargo"]))
    except (KeyError, TypeError, zlib.error) as error:
        raise ValueError(f"what was sent is no archive: {error}") from None
    if hashlib.sha256(raw).hexdigest() != digest:
        raise ValueError("what was sent has not arrived as it was")
    _discard_old()
    return cache.entry(_KIND, digest, functools.partial(_unpack, raw))


def _unpack(raw: bytes, draft: Path) -> None:
    wheels = []
    (draft / "files").mkdir()
    with tarfile.open(fileobj=io.BytesIO(raw), mode="r:") as archive:
        for member in archive:
            path = draft / member.name
            if ".." in path.parts or not path.is_relative_to(draft):
                raise ValueError(f"{member.name!r} is no name of a project's file")
            path.parent.mkdir(parents=True, exist_ok=True)
            if member.issym():
                path.symlink_to(member.linkname)
                continue
            content = archive.extractfile(member)
            assert content is not None
            path.write_bytes(content.read())
            path.chmod(member.mode)
            if member.name.startswith("wheels/"):
                wheels.append(str(path))
    if wheels:
        _install(wheels, draft / "site")


def _install(wheels: Sequence[str], folder: Path) -> None:
    words = [sys.executable, "-m", "pip", "install", "--quiet", "--no-index", "--no-deps"]
    done = subprocess.run(
        [*words, "--disable-pip-version-check", "--target", str(folder), *wheels],
        stdin=subprocess.DEVNULL,
        capture_output=True,
        timeout=_INSTALLING,
        check=False,
    )
    if done.returncode:
        said = foreign_text.short(done.stderr.decode("utf-8", "replace"))
        raise OSError(f"the wheels cannot be installed: {said}")


def _discard_old() -> None:
    """Remove the cargoes that no shard has used for long; whoever calls is the only shard here."""
    for folder in (cache.root() / _KIND).glob("*/"):
        with contextlib.suppress(OSError):
            if time.time() - folder.stat().st_mtime > _KEPT:
                shutil.rmtree(folder)
                Path(f"{folder}.lock").unlink()


def lay_out(folder: Path, to: Path, order: Mapping[str, Any]) -> dict[str, Any]:
    """Make a copy of a project for one shard; whatever its tests write there is gone with it.

    Args:
        folder: of the cargo.
        to: the copy, which is not there yet.
        order: of the shard, as for the machine that sent it.

    Returns:
        the order as it is for this machine: its words, environment and folder.
    """
    shutil.copytree(folder / "files", to, symlinks=True)
    own = order["cargo"]
    move = functools.partial(_moved, root=own["root"], to=str(to))
    words = [f"--rootdir={to}", *(["-c", str(to / own["ini"])] if own["ini"] else [])]
    environment = {key: move(each) for key, each in order["environment"].items()}
    if (site := folder / "site").is_dir():
        for key, path in (("PYTHONPATH", site), ("PATH", site / "bin")):
            environment[key] = os.pathsep.join(filter(None, [str(path), os.environ.get(key)]))
    at = to / own["folder"]
    at.mkdir(parents=True, exist_ok=True)
    words += (move(word) for word in order["words"])
    return {**order, "folder": str(at), "words": words, "environment": environment}


def _moved(text: str, root: str, to: str) -> str:
    """A text of a command line, with the paths below one folder below another one."""
    return re.sub(rf"(?<![^\s=:,'\"]){re.escape(root)}(?![^/\s:,'\"])", lambda _: to, text)
