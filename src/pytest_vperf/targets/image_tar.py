"""Writing an image's tar file so that equal trees are equal bytes, and without what no tool needs."""

from __future__ import annotations

import io
import tarfile
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from pathlib import Path


class TarWriter:
    """An uncompressed tar file in which everything is dated 0; members are named without a leading slash.

    Args:
        destination: written when the context is left.
    """

    def __init__(self, destination: Path) -> None:
        self._archive = tarfile.open(destination, "w:", format=tarfile.GNU_FORMAT)  # noqa: SIM115
        self._names: set[str] = set()

    def __enter__(self) -> TarWriter:
        return self

    def __exit__(self, *_: object) -> None:
        self._archive.close()

    def copy(
        self,
        source: Path,
        wanted: Callable[[str], bool] = lambda name: True,
        rename: Callable[[str], str] = lambda name: name,
    ) -> None:
        """Take over the members of another tar file, in its order; device nodes are left out.

        Args:
            source: the other tar file.
            wanted: whether to take the member of this name.
            rename: its new name.
        """
        with tarfile.open(source, "r:") as archive:
            for member in archive:
                name = rename(plain(member.name))
                if not name or not wanted(name) or not _is_kept(member) or name in self._names:
                    continue
                link = plain(member.linkname) if member.islnk() else member.linkname
                data = archive.extractfile(member) if member.isreg() else None
                self._add(name, member.type, member.mode, link, data, member.size, member)

    def folder(self, name: str, mode: int = 0o755) -> None:
        """A folder of root's, with those above it; nothing if it is there."""
        upper, _, _ = name.rpartition("/")
        if upper:
            self.folder(upper)
        if name not in self._names:
            self._add(name, tarfile.DIRTYPE, mode)

    def file(self, name: str, data: bytes, mode: int = 0o644) -> None:
        """A file of root's, with the folders above it."""
        upper, _, _ = name.rpartition("/")
        if upper:
            self.folder(upper)
        self._add(name, tarfile.REGTYPE, mode, data=io.BytesIO(data), size=len(data))

    def link(self, name: str, to: str) -> None:
        """A symbolic link of root's, with the folders above it; nothing if something of that name is there."""
        upper, _, _ = name.rpartition("/")
        if upper:
            self.folder(upper)
        if name not in self._names:
            self._add(name, tarfile.SYMTYPE, 0o777, to)

    def _add(
        self,
        name: str,
        kind: bytes,
        mode: int,
        link: str = "",
        data: object = None,
        size: int = 0,
        owner: tarfile.TarInfo | None = None,
    ) -> None:
        entry = tarfile.TarInfo(name)
        entry.type, entry.mode, entry.linkname, entry.size = kind, mode, link, size if data else 0
        if owner is not None:
            entry.uid, entry.gid = owner.uid, owner.gid
        self._archive.addfile(entry, data)  # type: ignore[arg-type]
        self._names.add(name)


def plain(name: str) -> str:
    """A member's name without ``./`` and slashes at its ends; the root itself is empty."""
    return (
        name.removeprefix(".").strip("/")
        if name.startswith(("./", "/")) or name == "."
        else name.rstrip("/")
    )


def _is_kept(member: tarfile.TarInfo) -> bool:
    return member.isreg() or member.isdir() or member.issym() or member.islnk()


def write_with(base: Path, extra: Mapping[str, bytes | Path], destination: Path) -> None:
    """A tar file with more programs in it.

    Args:
        base: a tar file that `TarWriter` wrote.
        extra: what to add, by its path in the image; a program, so it can be executed.
        destination: the new tar file.
    """
    more = {path.strip("/"): content for path, content in extra.items()}
    with TarWriter(destination) as archive:
        archive.copy(base, lambda name: name not in more)
        for name, content in sorted(more.items()):
            archive.file(
                name, content if isinstance(content, bytes) else content.read_bytes(), 0o755
            )
