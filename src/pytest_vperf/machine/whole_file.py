"""Files that are written whole or not at all, survive a power cut, and end up where the user said.

In a folder that others can write to, such as ``/tmp``, somebody may have placed a link under the name that leads to a
file of ours. So the kernel's rules for such folders (``protected_symlinks``, ``protected_fifos``,
`X
"""

from __future__ import annotations

import errno
import os
import pwd
import secrets
import stat
import sys
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

#: As the kernel's, path_resolution(7).
_MOST_LINKS = 40


def write_whole(path: Path, text: str) -> None:
    """Replace a file's content in one step, so that neither a reader nor a crash sees half of it.

    A link stays a link, and its file is replaced. A file keeps its mode and, if possible, its owner. Anything else is
    never replaced: it is written to (a terminal, a pipe, ``/dev/null``) or refused.

    Args:
        path: the file.
        text: its new content. A lone surrogate, which UTF-8 cannot encode, becomes ``\\udXXX``.

    Raises:
        OSError: it cannot be written, or must not be; an older one is unchanged.
    """
    with place(path) as found:
        found.write([text.encode("utf-8", "backslashreplace")])


@contextmanager
def place(path: Path) -> Iterator[Place]:
    """Find where a path leads, following safe links.

    Raises:
        OSError: a folder in it does not exist, or a link belongs to an untrusted user.
    """
    folder, name, stream = _follow(path)
    try:
        yield Place(folder, name, stream)
    finally:
        os.close(folder)
        if stream is not None:
            os.close(stream)


@dataclass(frozen=True)
class Place:
    """A name in a folder.

    Attributes:
        folder: its descriptor.
        name: its name in the folder; not a link.
        stream: a copy of the descriptor, if the path named one of our own open files, such as ``/dev/stdout``.
    """

    folder: int
    name: str
    stream: int | None

    def write(self, content: Iterable[bytes], *, draft: str = "") -> None:
        """Write the content.

        Args:
            content: its parts, in order.
            draft: the temporary name in the same folder; an unpredictable one by default.

        Raises:
            OSError: as `write_whole`.
        """
        if self.stream is not None:
            with suppress(OSError, ValueError):
                sys.stdout.flush()  # what was printed before comes first
            _pour(self.stream, content)
            return
        there = self._there()
        if there is None or stat.S_ISREG(there.st_mode):
            self._replace(content, there, draft or f".{self.name[:200]}-{secrets.token_hex(6)}")
            return
        # Non-blocking: opening a named pipe without a reader would wait for ever.
        flags = os.O_WRONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_NOCTTY | os.O_CLOEXEC
        try:
            target = os.open(self.name, flags, dir_fd=self.folder)
        except OSError as error:
            if error.errno == errno.ENXIO and stat.S_ISFIFO(there.st_mode):
                raise OSError(errno.ENXIO, "is a pipe that nobody reads") from None
            raise
        try:
            kind = os.fstat(target).st_mode
            if not (stat.S_ISCHR(kind) or stat.S_ISFIFO(kind)):
                raise OSError(errno.EINVAL, "is not a regular file, and nothing to write to")
            os.set_blocking(target, True)
            _pour(target, content)
        finally:
            os.close(target)

    def remove(self, name: str) -> None:
        """Remove a file in the folder, if it exists.

        Raises:
            OSError: it cannot be removed.
        """
        with suppress(FileNotFoundError):
            os.unlink(name, dir_fd=self.folder)

    def _there(self) -> os.stat_result | None:
        """The status of the existing file; ``None`` if there is none.

        Raises:
            OSError: it can never be written, or belongs to an untrusted user.
        """
        try:
            found = os.stat(self.name, dir_fd=self.folder, follow_symlinks=False)
        except FileNotFoundError:
            return None
        _check(self.folder, found)
        if stat.S_ISDIR(found.st_mode):
            raise OSError(errno.EISDIR, os.strerror(errno.EISDIR))
        if stat.S_ISBLK(found.st_mode) or stat.S_ISSOCK(found.st_mode):
            raise OSError(errno.EINVAL, "is not a regular file, and nothing to write to")
        return found

    def _replace(self, content: Iterable[bytes], there: os.stat_result | None, draft: str) -> None:
        # A new file gets the mode that the umask leaves; a replacement is private until it has its owner.
        flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
        file = os.open(draft, flags, 0o666 if there is None else 0o600, dir_fd=self.folder)
        try:
            try:
                _pour(file, content)
                if there is not None:
                    _give(file, there)
                os.fsync(file)
            finally:
                os.close(file)
            os.rename(draft, self.name, src_dir_fd=self.folder, dst_dir_fd=self.folder)
        except BaseException:
            with suppress(OSError):
                os.unlink(draft, dir_fd=self.folder)
            raise
        # Sync the name to disk too, if the folder is readable and its file system supports that.
        with suppress(OSError), _readable(self.folder) as readable:
            os.fsync(readable)


def names(folder: int) -> list[str]:
    """The names in a folder, by its descriptor.

    Raises:
        OSError: it may not be read.
    """
    with _readable(folder) as readable:
        return os.listdir(readable)  # noqa: PTH208 - a descriptor


def path_in(folder: int, name: str) -> str:
    """The path of a name in a folder, by the folder's descriptor; for messages."""
    return str(Path(f"/proc/self/fd/{folder}").readlink() / name)


@contextmanager
def _readable(folder: int) -> Iterator[int]:
    readable = os.open(".", os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC, dir_fd=folder)
    try:
        yield readable
    finally:
        os.close(readable)


def _pour(file: int, content: Iterable[bytes]) -> None:
    for part in content:
        left = memoryview(part)
        while left:
            left = left[os.write(file, left) :]


def _give(file: int, like: os.stat_result) -> None:
    """Give a file the mode of another one, and its owner, or at least its group, if we may."""
    for user, group in ((like.st_uid, like.st_gid), (-1, like.st_gid)):
        with suppress(OSError):
            os.fchown(file, user, group)
            break
    os.fchmod(file, like.st_mode & 0o777)


def _follow(path: Path) -> tuple[int, str, int | None]:
    """The folder in which a path ends, the name there, and the copy of our own stream that it names, if any."""
    parts = path.absolute().parts[:0:-1]
    left = list(parts)
    folder, links = os.open("/", os.O_PATH | os.O_DIRECTORY | os.O_CLOEXEC), 0
    try:
        while True:
            if not left:
                raise OSError(errno.EISDIR, os.strerror(errno.EISDIR))
            name = left.pop()
            try:
                entry = os.open(name, os.O_PATH | os.O_NOFOLLOW | os.O_CLOEXEC, dir_fd=folder)
            except FileNotFoundError:
                if left:
                    raise
                return folder, name, None
            try:
                found = os.fstat(entry)
                if not stat.S_ISLNK(found.st_mode):
                    if not left:
                        return folder, name, None
                    if not stat.S_ISDIR(found.st_mode):
                        raise OSError(errno.ENOTDIR, os.strerror(errno.ENOTDIR))
                    folder, entry = entry, folder
                    continue
                _check(folder, found)
                links += 1
                if links > _MOST_LINKS:
                    raise OSError(errno.ELOOP, os.strerror(errno.ELOOP))
                inside = str(Path(f"/proc/self/fd/{folder}").readlink())
                if inside == f"/proc/{os.getpid()}/fd" and not left:
                    return folder, name, os.dup(int(name))
                goal = os.readlink("", dir_fd=entry)
                if goal.startswith("/"):
                    if inside.startswith("/proc/"):  # the link's text need not be where it leads
                        raise OSError(errno.EINVAL, "leads to a file of another process")
                    root = os.open("/", os.O_PATH | os.O_DIRECTORY | os.O_CLOEXEC)
                    os.close(folder)
                    folder = root
                left += [part for part in reversed(goal.split("/")) if part not in ("", ".")]
            finally:
                os.close(entry)
    except BaseException:
        os.close(folder)
        raise


def _check(folder: int, found: os.stat_result) -> None:
    """Refuse what somebody else has put into a shared folder.

    Raises:
        OSError: it belongs to an untrusted user.
    """
    around = os.fstat(folder)
    sticky = around.st_mode & stat.S_ISVTX and around.st_mode & (stat.S_IWOTH | stat.S_IWGRP)
    linked = around.st_mode & stat.S_IWOTH and stat.S_ISLNK(found.st_mode)
    if linked or (sticky and not stat.S_ISDIR(found.st_mode)):
        if found.st_uid in (os.geteuid(), around.st_uid):
            return
        try:
            owner = pwd.getpwuid(found.st_uid).pw_name
        except KeyError:
            owner = f"user {found.st_uid}"
        what = "a link of" if stat.S_ISLNK(found.st_mode) else "of"
        raise OSError(
            errno.EPERM,
            f"is {what} {owner}, in a folder that others can write to: remove it, or name another file",
        )
