"""The tree in an image's tar file: what is where, as a system with it as its root sees it, and unpacked for the host.

An image may come from anywhere. Names are resolved in the tree and nowhere else: ``..`` ends at its root, and an
absolute link begins there. What is unpacked are folders, files and links of this user's; a link leads to the same
place as in the image, inside of the unpacked tree. No device is made and no privilege is given.

Writing an image's tar file so that equal trees are equal bytes, and without what no tool needs.

The members of an image's tar file, which may come from anywhere: read, or refused in words, whatever is in it.

Its limits are far above what images have (a Debian with a desktop has 300,000 files, 20 folders deep), and low enough
that one which is made to be unpacked for ever is refused at once.
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


#: Members of one image.
MEMBERS = 1_000_000
#: Folders within each other.
DEPTH = 256
#: Bytes of a name, as Linux has it (PATH_MAX in limits.h), and of one part of it (NAME_MAX).
NAME, PART = 4096, 255
#: Bytes of a header: longer names and PAX records are read into memory whole. Names are far shorter, see `NAME`;
#: extended attributes, which are kept there too, have at most 64 KiB each (xattr(7)).
HEADER = 1 << 20

# How gzip, bzip2, xz and zstd files begin.
_COMPRESSED = (b"\x1f\x8b", b"BZh", b"\xfd7zXZ", b"\x28\xb5\x2f\xfd")
#: What reading a damaged, or made-up, archive ends with: sizes may be negative or beyond any file, and headers that
#: belong to the next header may follow each other without end.
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
        CannotStart: it cannot be read, is compressed or damaged, or has a member whose content is not written out.
    """
    try:
        with path.open("rb") as stream:
            headers: Any = Headers(stream, str(path))
            with tarfile.open(fileobj=headers, mode="r:") as archive:
                for count in itertools.count(1):
                    member = archive.next()
                    if member is None:
                        return
                    archive.__dict__["members"].clear()  # it keeps them all, else
                    if count > MEMBERS:
                        raise CannotStart(f"the image {path} has more than {MEMBERS} members")
                    _check(path, member)
                    yield member
    except OSError as error:
        raise CannotStart(f"the image {path} cannot be read: {error.strerror}") from error
    except DAMAGE as error:
        raise CannotStart(f"the image {path} is not {_what_is_wrong(path, error)}") from error


class Headers:
    """A tar file of which headers are read, and refused where they are made to fill the memory.

    Args:
        stream: the archive.
        name: in messages.
    """

    def __init__(self, stream: BinaryIO, name: str) -> None:
        self._stream = stream
        self.name = name
        self.seek, self.tell = stream.seek, stream.tell

    def read(self, size: int = -1) -> bytes:
        """As of a stream.

        Raises:
            tarfile.HeaderError: nobody has that much to say.
        """
        if not 0 <= size <= HEADER:
            raise tarfile.HeaderError(f"a header has {size} bytes")
        return self._stream.read(size)


def _check(path: Path, member: tarfile.TarInfo) -> None:
    name = shown(member.name)
    if member.size < 0:  # reading would go back, and on for ever
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
    """A member's name for messages: in quotes, without control characters, and not longer than a line."""
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


#: As Linux has it (path_resolution(7)).
_MAX_LINKS = 40
#: Bytes of a file that is read whole: programs, lists of users, the like.
_LARGEST = 1 << 30


@dataclass(frozen=True)
class Entry:
    """One thing in a tree.

    Attributes:
        kind: ``folder``, ``file`` or ``link``; other things are not kept.
        mode: permission bits.
        link: where a link leads, as it is written.
        offset: of a file's content in the tar file.
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
        CannotStart: the archive is damaged, or has names that no image has.
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
            # A folder's own line may come after what is in it, and never takes the place of a link to one.
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
                    f"the image {self.tar} has {shown(member.name)} as another name of {shown(member.linkname)},"
                    " which it does not have before"
                )
            self._entries[path] = other
        # Devices, sockets and pipes are made where a container or a pod starts.

    def _folder(self, parts: list[str], name: str) -> str:
        """The folder that a member is in, made where the archive does not name it."""
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
        """Where a path leads in this tree, without a leading slash; ``None`` if it leads nowhere.

        Args:
            path: seen from the root.
            follow: also follow a link that is the last name.
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
        """What a path leads to, links followed."""
        found = self.resolve(path)
        return None if found is None else self._entries[found]

    def names(self, folder: str) -> list[str]:
        """The names in a folder, sorted; none where there is no such folder."""
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
            CannotStart: the file is larger than any program.
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
        """Write the tree into an empty folder. Links come last: until then there is none to write through."""
        for path, _ in self._of_kind("folder"):
            (folder / path).mkdir(mode=0o755, parents=True, exist_ok=True)
        # A file with several names is one here, too: as many as it has would be copies without end.
        first: dict[int, str] = {}
        with self.tar.open("rb") as stream:
            for path, entry in self._of_kind("file"):
                if first.setdefault(id(entry), path) != path:
                    (folder / path).hardlink_to(folder / first[id(entry)])
                    continue
                _copy(stream, entry, folder / path)
                # Readable, never writable by others, no set-user-ID: it is a copy to run, not a system.
                (folder / path).chmod(0o755 if entry.mode & 0o111 else 0o644)
        for path, entry in self._of_kind("link"):
            (folder / path).symlink_to(self.inner_link(path, entry.link))

    def _of_kind(self, kind: str) -> list[tuple[str, Entry]]:
        return sorted(
            (path, each) for path, each in self._entries.items() if path and each.kind == kind
        )

    def inner_link(self, path: str, link: str) -> str:
        """A link's text that leads to the same place where the tree is not the root.

        Where the link leads to something, all links on the way are taken out of it; where it leads nowhere, it
        leads to itself, which is nowhere too, and stays inside.
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
