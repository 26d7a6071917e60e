"""The cache of things built between runs: images, guest kernels, agents, probe results.

An entry's key covers everything it was built from, so it is never out of date: other inputs make another entry. An
entry appears whole or not at all, even when two processes build it at once.
"""

from __future__ import annotations

import contextlib
import functools
import hashlib
import os
import re
import shutil
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING

from pytest_vperf.machine.ownership import require_own, stranger_above
from pytest_vperf.machine.waits import waiting_for

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

#: A draft of an entry, made by `entry`; or a kind's folder ``work``, shared by its entries under the kind's own lock.
_DRAFT = re.compile(r"\.(?P<key>[\w-]+)-[a-z0-9_]{8}|work")


#: Root's cache if its usual one is in another user's folder, as under `sudo` and in some CI systems.
_ROOTS = Path("/var/cache/vperf")


def root() -> Path:
    """The cache folder: ``$VPERF_CACHE_DIR``, else ``vperf`` in the user's cache folder (XDG); it need not exist.

    Its content is executed, so it must belong to this user alone. Root does not use another user's home, but
    ``/var/cache/vperf``.

    Raises:
        PermissionError: somebody else may change its content; the message says who, and what to do.
    """
    import platformdirs

    named = os.environ.get("VPERF_CACHE_DIR")
    folder = Path(named).absolute() if named else Path(platformdirs.user_cache_dir("vperf"))
    stranger = stranger_above(folder)
    if stranger and not named and os.geteuid() == 0:
        folder, stranger = _ROOTS, ""
    require_own(folder, "VPERF_CACHE_DIR", named=bool(named))
    if stranger:
        raise PermissionError(
            f"{stranger}, and so who may change what is in {folder}, which is executed;"
            " set VPERF_CACHE_DIR to a folder of yours"
        )
    return folder


def content_key(parts: Iterable[str | bytes]) -> str:
    """A key of 16 hexadecimal digits over all parts, their order and their boundaries."""
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
    """`file_sha256`, cached: for a file that does not change while this process lives.

    Raises:
        OSError: the file cannot be read.
    """
    return file_sha256(path)


def entry(kind: str, key: str, build: Callable[[Path], None]) -> Path:
    """The folder ``kind/key`` in the cache, built if it is not there.

    Args:
        kind: the kind of entry, a file name: ``rootfs``, ``kernel``, ``agent``.
        key: from `content_key`, over everything the content depends on.
        build: fills an empty folder; called outside any measured time.

    Raises:
        PermissionError: as `root`; or somebody else made the entry.
        whatever ``build`` raises; nothing is then left in the cache.
    """
    from filelock import FileLock

    home = root()
    folder = home / kind / key
    for made in (folder.parent, folder):  # perhaps before the cache was given to this user
        require_own(made, "VPERF_CACHE_DIR", named=False)
    if folder.is_dir():
        return folder
    home.mkdir(mode=0o700, parents=True, exist_ok=True)
    folder.parent.mkdir(parents=True, exist_ok=True)
    with waiting_for(f"the {kind} to be built, once"), FileLock(f"{folder}.lock"):
        if folder.is_dir():
            return folder
        for left in folder.parent.glob(f".{key}-*"):  # drafts of killed builders: we hold the lock
            _remove(left)
        draft = Path(tempfile.mkdtemp(prefix=f".{key}-", dir=folder.parent))
        try:
            build(draft)
            draft.chmod(0o755)
            draft.rename(folder)
        except BaseException:
            _remove(draft)
            raise
    return folder


def abandoned() -> list[Path]:
    """Drafts of entries, and their work folders, whose builder was killed."""
    return [draft for draft, lock in _drafts() if _is_free(lock) and draft.exists()]


def discard(draft: Path) -> str:
    """Remove an abandoned draft; return the reason if that fails, otherwise empty."""
    from filelock import FileLock, Timeout

    for found, lock in _drafts():
        if found == draft:
            try:
                with FileLock(lock, timeout=0):
                    _remove(draft)
            except Timeout:
                return "it is being built"
    return "not all of it can be removed" if draft.exists() else ""


def _drafts() -> Iterator[tuple[Path, Path]]:
    """Drafts, each with the lock that its builder holds."""
    for path in sorted(root().glob("*/*")):
        name = _DRAFT.fullmatch(path.name)
        if name and path.is_dir() and not path.is_symlink():
            yield path, path.parent / (f"{name['key']}.lock" if name["key"] else "lock")


def _is_free(lock: Path) -> bool:
    from filelock import FileLock, Timeout

    try:
        with FileLock(lock, timeout=0):
            return True
    except Timeout:
        return False


def _remove(draft: Path) -> None:
    """Remove a draft as far as possible; a tree may be too deep for `shutil`."""
    with contextlib.suppress(RecursionError):
        shutil.rmtree(draft, ignore_errors=True)
