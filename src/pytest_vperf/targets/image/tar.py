"""The tree in an image's tar file: what is where, as a system with it as its root sees it, and unpacked for the host.

An image may come from anywhere. Names are resolved in the tree and nowhere else: ``..`` ends at its root, and an
absolute link begins there. What is unpacked are folders, files and links of this user's; a link leads to the same
place as in the image, inside of the unpacked tree. No device is made and no privilege is given.
"""

from __future__ import annotations

import posixpath
from dataclasses import dataclass
from typing import TYPE_CHECKING

from pytest_vperf.targets.base import CannotStart
from pytest_vperf.targets.tar_members import members, shown

if TYPE_CHECKING:
    import tarfile
    from pathlib import Path
    from typing import BinaryIO

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
                    f"the image {self.tar} has {shown(name)} below something that is no folder"
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
