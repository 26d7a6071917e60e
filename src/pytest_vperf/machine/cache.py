"""Where built things are kept between runs: images, guest kernels, agents, probe results.

Entries are keyed by what they were built from, so an entry is never out of date: other inputs, another
entry. An entry appears whole or not at all, also when two processes build it at once.
"""

from __future__ import annotations

import functools
import hashlib
import os
import shutil
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable


def root() -> Path:
    """The cache folder: ``$VPERF_CACHE_DIR``, else ``vperf`` in the user's cache folder (XDG)."""
    import platformdirs

    named = os.environ.get("VPERF_CACHE_DIR")
    return Path(named) if named else Path(platformdirs.user_cache_dir("vperf"))


def content_key(parts: Iterable[str | bytes]) -> str:
    """A key of 16 hexadecimal digits over all parts, their order and their borders."""
    digest = hashlib.sha256()
    for part in parts:
        data = part.encode() if isinstance(part, str) else part
        digest.update(len(data).to_bytes(8, "big"))
        digest.update(data)
    return digest.hexdigest()[:16]


def file_sha256(path: Path) -> str:
    """The SHA-256 of a file's content, in hexadecimal.

    Raises:
        OSError: the file cannot be read.
    """
    digest = hashlib.sha256()
    with path.open("rb") as stream:
        while chunk := stream.read(1 << 20):
            digest.update(chunk)
    return digest.hexdigest()


@functools.lru_cache(maxsize=64)
def kept_sha256(path: Path) -> str:
    """As `file_sha256`, read once: for a file that does not change as long as this process lives.

    Raises:
        OSError: the file cannot be read.
    """
    return file_sha256(path)


def entry(kind: str, key: str, build: Callable[[Path], None]) -> Path:
    """The folder ``kind/key`` in the cache, built if it is not there.

    Args:
        kind: what it is, a file name: ``rootfs``, ``kernel``, ``agent``.
        key: from `content_key`, over everything the content depends on.
        build: fills an empty folder; called outside any measured time.

    Raises:
        whatever ``build`` raises; nothing is left in the cache then.
    """
    from filelock import FileLock

    folder = root() / kind / key
    if folder.is_dir():
        return folder
    folder.parent.mkdir(parents=True, exist_ok=True)
    with FileLock(f"{folder}.lock"):
        if folder.is_dir():
            return folder
        draft = Path(tempfile.mkdtemp(prefix=f".{key}-", dir=folder.parent))
        try:
            build(draft)
            draft.chmod(0o755)
            draft.rename(folder)
        except BaseException:
            shutil.rmtree(draft, ignore_errors=True)
            raise
    return folder
