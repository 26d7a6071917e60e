"""The members of an image's tar file, which may come from anywhere: read, or refused in words, whatever is in it.

Its limits are far above what images have (a Debian with a desktop has 300,000 files, 20 folders deep), and low enough
that one which is made to be unpacked for ever is refused at once.
"""

from __future__ import annotations

import itertools
import tarfile
from typing import TYPE_CHECKING, Any, BinaryIO

from pytest_vperf.targets.base import CannotStart

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

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
