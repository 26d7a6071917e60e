"""Tar files of images: written reproducibly, read with limits, and their trees looked up in and unpacked.

An image may come from an untrusted source. Names are resolved within the tree only: ``..`` stops at its root, and
absolute links start there. Only folders, files and links are unpacked, owned by this user; a link leads to the same
place as in the image, within the unpacked tree. No device is created and no privilege is granted.

The limits on members are far above any image (a Debian desktop has 300,000 files, 20 folders deep), and low enough to
refuse at once an image made to unpack endlessly.
"""

from __future__ import annotations

import io
import itertools
import posixpath
import tarfile
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, BinaryIO

from pytest_vperf.targets.base import CannotStart

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping
    from pathlib import Path


class TarWriter:
    """Writes an uncompressed tar file with all times 0, so equal trees are equal bytes; names have no leading slash.

    Args:
        destination: the file, complete when the context is left.
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
        """Copy the members of another tar file, in its order, without device nodes.

        Args:
            source: the other tar file.
            wanted: whether to copy the member of this name.
            rename: a member's new name.
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
        """Add a folder owned by root, and its parents, unless it exists."""
        upper, _, _ = name.rpartition("/")
        if upper:
            self.folder(upper)
        if name not in self._names:
            self._add(name, tarfile.DIRTYPE, mode)

    def file(self, name: str, data: bytes, mode: int = 0o644) -> None:
        """Add a file owned by root, and its parent folders."""
        upper, _, _ = name.rpartition("/")
        if upper:
            self.folder(upper)
        self._add(name, tarfile.REGTYPE, mode, data=io.BytesIO(data), size=len(data))

    def link(self, name: str, to: str) -> None:
        """Add a symbolic link owned by root, and its parent folders, unless the name exists."""
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
    """A member's name without leading ``./`` and outer slashes; empty for the root."""
    return (
        name.removeprefix(".").strip("/")
        if name.startswith(("./", "/")) or name == "."
        else name.rstrip("/")
    )


def _is_kept(member: tarfile.TarInfo) -> bool:
    return member.isreg() or member.isdir() or member.issym() or member.islnk()


def write_with(base: Path, extra: Mapping[str, bytes | Path], destination: Path) -> None:
    """Write a tar file with programs added to it.

    Args:
        base: a tar file written by `TarWriter`.
        extra: the programs, by path in the image; they become executable.
        destination: the new tar file.
    """
    more = {path.strip("/"): content for path, content in extra.items()}
    with TarWriter(destination) as archive:
        archive.copy(base, lambda name: name not in more)
        for name, content in sorted(more.items()):
            archive.file(
                name, content if isinstance(content, bytes) else content.read_bytes(), 0o755
            )


#: Most members of an image.
MEMBERS = 1_000_000
#: Most parts of a path.
DEPTH = 256
#: Most bytes of a path (Linux, limits.h: PATH_MAX), and of one part of it (NAME_MAX).
NAME, PART = 4096, 255
#: Most bytes of a header: long names and PAX records are read into memory whole. Names are far shorter, see `NAME`;
#: extended attributes, also kept there, have at most 64 KiB each (xattr(7)).
HEADER = 1 << 20

# How gzip, bzip2, xz and zstd files begin.
_COMPRESSED = (b"\x1f\x8b", b"BZh", b"\xfd7zXZ", b"\x28\xb5\x2f\xfd")
#: Errors when reading a damaged or forged archive: sizes may be negative or beyond any file, and extension headers
#: may follow each other endlessly.
DAMAGE = (
    tarfile.TarError,
    EOFError,
    ValueError,
    ArithmeticError,
    LookupError,
    MemoryError,
    RecursionError,
)


def members(path: Path) -> Iterator[tarfile.TarInfo]:
    """The members of an uncompressed tar file, one after the other.

    Raises:
        CannotStart: it cannot be read, is compressed or damaged, exceeds a limit, or has a sparse file.
    """
    try:
        with path.open("rb") as stream:
            headers: Any = Headers(stream, str(path))
            with tarfile.open(fileobj=headers, mode="r:") as archive:
                for count in itertools.count(1):
                    member = archive.next()
                    if member is None:
                        return
                    archive.__dict__["members"].clear()  # otherwise it keeps them all
                    if count > MEMBERS:
                        raise CannotStart(f"the image {path} has more than {MEMBERS} members")
                    _check(path, member)
                    yield member
    except OSError as error:
        raise CannotStart(f"the image {path} cannot be read: {error.strerror}") from error
    except DAMAGE as error:
        raise CannotStart(f"the image {path} is not {_what_is_wrong(path, error)}") from error


class Headers:
    """A stream of a tar file's headers that refuses headers made to exhaust memory.

    Args:
        stream: the archive.
        name: in messages.
    """

    def __init__(self, stream: BinaryIO, name: str) -> None:
        self._stream = stream
        self.name = name
        self.seek, self.tell = stream.seek, stream.tell

    def read(self, size: int = -1) -> bytes:
        """Read ``size`` bytes.

        Raises:
        tarfile.HeaderError: ``size`` is negative or above `HEADER`.
        """
        if not 0 <= size <= HEADER:
            raise tarfile.HeaderError(f"a header has {size} bytes")
        return self._stream.read(size)


def _check(path: Path, member: tarfile.TarInfo) -> None:
    name = shown(member.name)
    if member.size < 0:  # reading would go backwards, and never end
        raise CannotStart(
            f"the image {path} is not a whole tar archive: {name} has {member.size} bytes"
        )
    if member.issparse():
        raise CannotStart(f"the image {path} has the sparse file {name}: write it without --sparse")
    for text in (member.name, member.linkname):
        parts = text.split("/")
        if len(text.encode("utf-8", "surrogateescape")) > NAME or len(parts) > DEPTH:
            raise CannotStart(
                f"the image {path} has a name of {len(text)} characters in {len(parts)} parts, {shown(text)}:"
                f" at most {NAME} and {DEPTH}"
            )
        longest = max(parts, key=len)
        if len(longest.encode("utf-8", "surrogateescape")) > PART:
            raise CannotStart(
                f"the image {path} has a name of {len(longest)} characters, {shown(longest)}: at most {PART}"
            )


def shown(name: str) -> str:
    """A member's name for messages: quoted, control characters escaped, shortened to a line."""
    return repr(name if len(name) <= 80 else f"{name[:60]}…{name[-18:]}")


def _what_is_wrong(path: Path, error: BaseException) -> str:
    with path.open("rb") as stream:
        compressed = stream.read(8).startswith(_COMPRESSED)
    if compressed:
        return "a plain tar archive: it is compressed; unpack the compression first"
    words = (
        "its headers make no sense" if isinstance(error, (RecursionError, MemoryError)) else error
    )
    return f"a whole tar archive: {words}"


#: Linux's limit (path_resolution(7)).
_MAX_LINKS = 40
#: Most bytes of a file that is read whole, such as a program or a list of users.
_LARGEST = 1 << 30


@dataclass(frozen=True)
class Entry:
    """A folder, file or link in a tree.

    Attributes:
        kind: ``folder``, ``file`` or ``link``; others are not kept.
        mode: permission bits.
        link: a link's text.
        offset: of a file's content in the tar file, in bytes.
        size: of a file's content, in bytes.
    """

    kind: str
    mode: int = 0o755
    link: str = ""
    offset: int = 0
    size: int = 0


class Tree:
    """The tree of one tar file.

    Args:
        tar: uncompressed.

    Raises:
        CannotStart: the archive is damaged, or has names that no real image has.
    """

    def __init__(self, tar: Path) -> None:
        self.tar = tar
        self._entries: dict[str, Entry] = {"": Entry("folder")}
        for member in members(tar):
            self._add(member)

    def _add(self, member: tarfile.TarInfo) -> None:
        parts = [part for part in member.name.split("/") if part not in ("", ".")]
        if not parts:
            return
        if ".." in parts or "\0" in member.name:
            raise CannotStart(
                f"the image {self.tar} has a member with .. in its name: {shown(member.name)}"
            )
        folder = self._folder(parts[:-1], member.name)
        path = f"{folder}/{parts[-1]}" if folder else parts[-1]
        known = self._entries.get(path)
        if member.isdir():
            # A folder's own member may follow its content, and never replaces a link to a folder.
            if known is None or known.kind == "file":
                self._entries[path] = Entry("folder", member.mode & 0o7777)
            return
        if known is not None and known.kind == "folder":
            raise CannotStart(
                f"the image {self.tar} has {shown(member.name)} twice, once as a folder"
            )
        if member.issym():
            self._entries[path] = Entry("link", link=member.linkname)
        elif member.isreg():
            mode = member.mode & 0o7777
            self._entries[path] = Entry("file", mode, "", member.offset_data, member.size)
        elif member.islnk():
            other = self._entries.get(self.resolve(f"/{member.linkname}", follow=False) or "?")
            if other is None or other.kind == "folder":
                raise CannotStart(
                    f"the image {self.tar} has {shown(member.name)} as a hard link to {shown(member.linkname)},"
                    " which does not precede it"
                )
            self._entries[path] = other
        # Devices, sockets and pipes are created where a container or a pod starts.

    def _folder(self, parts: list[str], name: str) -> str:
        """The folder of a member, added if the archive does not list it."""
        path = ""
        for part in parts:
            below = f"{path}/{part}" if path else part
            if below not in self._entries:
                self._entries[below] = Entry("folder")
            found = self.resolve(f"/{below}")
            if found is None or self._entries[found].kind != "folder":
                raise CannotStart(
                    f"the image {self.tar} has {shown(name)} below something that is not a folder"
                )
            path = found
        return path

    def resolve(self, path: str, *, follow: bool = True) -> str | None:
        """The path that a path leads to in this tree, without a leading slash; ``None`` if it leads nowhere.

        Args:
            path: from the root.
            follow: whether to follow a link in the last part.
        """
        waiting, at, links = path.split("/")[::-1], "", 0
        while waiting:
            part = waiting.pop()
            entry = self._entries.get(at)
            if part in ("", "."):
                continue
            if entry is None or entry.kind != "folder":
                return None
            if part == "..":
                at = posixpath.dirname(at)
                continue
            below = f"{at}/{part}" if at else part
            found = self._entries.get(below)
            if found is None:
                return None
            last = not any(word not in ("", ".") for word in waiting)
            if found.kind != "link" or (last and not follow):
                at = below
                continue
            links += 1
            if links > _MAX_LINKS:
                return None
            waiting += found.link.split("/")[::-1]
            if found.link.startswith("/"):
                at = ""
        return at

    def entry(self, path: str) -> Entry | None:
        """The entry that a path leads to, links followed; ``None`` if it leads nowhere."""
        found = self.resolve(path)
        return None if found is None else self._entries[found]

    def names(self, folder: str) -> list[str]:
        """The names in a folder, sorted; empty if there is no such folder."""
        found = self.resolve(folder)
        if found is None:
            return []
        start = f"{found}/" if found else ""
        below = (
            path.removeprefix(start) for path in self._entries if path and path.startswith(start)
        )
        return sorted(name for name in below if name and "/" not in name)

    def read(self, path: str) -> bytes:
        """The content of a file.

        Raises:
            FileNotFoundError: the path does not lead to a file.
            CannotStart: the file is larger than 1 GiB.
        """
        entry = self.entry(path)
        if entry is None or entry.kind != "file":
            raise FileNotFoundError(f"{self.tar} has no file {path}")
        if entry.size > _LARGEST:
            raise CannotStart(
                f"the image {self.tar} has {entry.size >> 20} MiB at {shown(path)}: a program has at most"
                f" {_LARGEST >> 20} MiB"
            )
        with self.tar.open("rb") as stream:
            stream.seek(entry.offset)
            return stream.read(entry.size)

    def unpack(self, folder: Path) -> None:
        """Write the tree into an empty folder, links last, so that none can be written through."""
        for path, _ in self._of_kind("folder"):
            (folder / path).mkdir(mode=0o755, parents=True, exist_ok=True)
        # A file with several names stays one file: copies of it could fill the disk.
        first: dict[int, str] = {}
        with self.tar.open("rb") as stream:
            for path, entry in self._of_kind("file"):
                if first.setdefault(id(entry), path) != path:
                    (folder / path).hardlink_to(folder / first[id(entry)])
                    continue
                _copy(stream, entry, folder / path)
                # Readable, not writable by others, no set-user-ID: a copy to run programs from, not a system.
                (folder / path).chmod(0o755 if entry.mode & 0o111 else 0o644)
        for path, entry in self._of_kind("link"):
            (folder / path).symlink_to(self.inner_link(path, entry.link))

    def _of_kind(self, kind: str) -> list[tuple[str, Entry]]:
        return sorted(
            (path, each) for path, each in self._entries.items() if path and each.kind == kind
        )

    def inner_link(self, path: str, link: str) -> str:
        """A link's text that leads to the same place when the tree is not the root.

        All links on its way are resolved. A link that leads nowhere becomes a link to itself, which leads nowhere
        too, but stays inside.
        """
        upper = posixpath.dirname(path)
        start = "" if link.startswith("/") else f"/{upper}"
        found = self.resolve(f"{start}/{link}")
        if found is None:
            return posixpath.basename(path)
        return posixpath.relpath(f"/{found}", f"/{upper}")


def _copy(source: BinaryIO, entry: Entry, destination: Path) -> None:
    source.seek(entry.offset)
    left = entry.size
    with destination.open("xb") as stream:
        while left:
            data = source.read(min(left, 1 << 20))
            if not data:
                raise OSError(f"{destination.name} is not whole")
            stream.write(data)
            left -= len(data)


def unpacked(tree: Tree, sha256: str) -> Path:
    """The unpacked tree in the cache.

    Args:
        tree: the image's.
        sha256: of its tar file.
    """
    from pytest_vperf.machine import cache

    key = cache.content_key(["unpacked tree 1", sha256])
    return cache.entry("tree", key, lambda draft: _unpack(tree, draft)) / "root"


def _unpack(tree: Tree, draft: Path) -> None:
    (draft / "root").mkdir()
    try:
        tree.unpack(draft / "root")
    except OSError as error:
        why = error.strerror or error
        raise CannotStart(f"the image {tree.tar} cannot be unpacked: {why}") from error
