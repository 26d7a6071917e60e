"""The members of an image's tar file, which may come from anywhere: read, or refused in words, whatever is in it."""

from __future__ import annotations

import tarfile
from typing import TYPE_CHECKING

from pytest_vperf.targets.base import CannotStart

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

# How gzip, bzip2, xz and zstd files begin.
_COMPRESSED = (b"\x1f\x8b", b"BZh", b"\xfd7zXZ", b"\x28\xb5\x2f\xfd")
#: What reading a damaged, or made-up, archive ends with: sizes may be negative or beyond any file, and headers that
#: belong to the next header may follow each other without end.
_DAMAGE = (
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
        with tarfile.open(path, "r:") as archive:
            for member in archive:
                if member.size < 0:  # reading would go back, and on for ever
                    raise CannotStart(
                        f"the image {path} is not a whole tar archive: {member.name!r} has {member.size} bytes"
                    )
                if member.issparse():
                    raise CannotStart(
                        f"the image {path} has the sparse file {member.name!r}: write it without --sparse"
                    )
                yield member
    except OSError as error:
        raise CannotStart(f"the image {path} cannot be read: {error.strerror}") from error
    except _DAMAGE as error:
        raise CannotStart(f"the image {path} is not {_what_is_wrong(path, error)}") from error


def _what_is_wrong(path: Path, error: BaseException) -> str:
    with path.open("rb") as stream:
        compressed = stream.read(8).startswith(_COMPRESSED)
    if compressed:
        return "a plain tar archive: it is compressed; unpack the compression first"
    words = (
        "its headers make no sense" if isinstance(error, (RecursionError, MemoryError)) else error
    )
    return f"a whole tar archive: {words}"
