"""Reading an untrusted text file: without blocking, without filling the memory, and only if it is text. The error
lists what is wrong with a threshold file, and where, one line per problem.
"""

from __future__ import annotations

import difflib
import errno
import os
import re
import stat
from dataclasses import dataclass
from typing import TYPE_CHECKING

from pytest_vperf import foreign_text

if TYPE_CHECKING:
    from collections.abc import Iterable
    from pathlib import Path


#: A place in the data: the keys and list indices that lead there.
DataPath = tuple["str | int", ...]

_MOST = 50


class ThresholdError(Exception):
    """One or more threshold files are wrong; the message has one line per problem."""

    def __init__(self, lines: Iterable[str]) -> None:
        every = [foreign_text.lines(each) for each in lines]
        if len(every) > _MOST:
            every = [*every[:_MOST], f"… and {len(every) - _MOST} more problems"]
        super().__init__("\n".join(every))


@dataclass(frozen=True)
class Problem:
    """One thing that is wrong.

    Attributes:
        path: the value it is about.
        message: what is wrong, without a full stop.
        at_key: the key is wrong rather than its value.
        position: line and column, if they are not those of the path.
    """

    path: DataPath
    message: str
    at_key: bool = False
    position: tuple[int, int] | None = None


def nearest(name: str, names: Iterable[str]) -> str:
    """``; did you mean 'NAME'?`` for the most similar of the names; empty if none is similar."""
    found = difflib.get_close_matches(name, list(names), n=1, cutoff=0.6)
    return f"; did you mean {found[0]!r}?" if found else ""


def shown(value: object, most: int = 60) -> str:
    """A value for a message: on one line, quoted, and truncated if long."""
    text = repr(value)
    return text if len(text) <= most else text[:most] + "…"


def key_path(path: DataPath) -> str:
    """``claims.startup.pod.kvm.qboot.at_most``; keys that are not plain words are quoted."""
    return ".".join(
        str(part) if re.fullmatch(r"[\w.*-]{1,120}", str(part)) else shown(part) for part in path
    )


MAX_BYTES = 1 << 20
_KIND = "threshold file"

# What YAML 1.2 allows in a file (§5.1), except that NEL and the line separators are left out: editors do not count
# them as line breaks.
_FORBIDDEN = re.compile(
    "[^\t\n\r\x20-\x7e\xa0-\u2027\u202a-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]"
)


def read_text(path: Path, name: str) -> str:
    """The text of a file.

    Args:
        path: the file.
        name: how messages show it.

    Raises:
        ThresholdError: it is not a readable, regular file of at most 1 MiB with UTF-8 text.
    """
    return text_of(read_bytes(path, name, MAX_BYTES, _KIND), name)


def text_of(data: bytes, name: str) -> str:
    """The text of a file's content.

    Args:
        data: the content.
        name: how messages show the file.

    Raises:
        ThresholdError: it is more than 1 MiB, or no UTF-8 text.
    """
    _check_size(data, name, MAX_BYTES, _KIND)
    try:
        text = data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        before = data[: error.start]
        line, column = before.count(b"\n") + 1, error.start - before.rfind(b"\n")
        raise ThresholdError([f"{name}:{line}:{column}: the file is not UTF-8"]) from None
    if found := _FORBIDDEN.search(text):
        line = text.count("\n", 0, found.start()) + 1
        column = found.start() - text.rfind("\n", 0, found.start())
        raise ThresholdError(
            [
                f"{name}:{line}:{column}: the character U+{ord(found[0]):04X} is not allowed in a file"
            ]
        )
    return text


def read_bytes(path: Path, name: str, most: int, kind: str) -> bytes:
    """The content of a file.

    Args:
        path: the file.
        name: how messages show it.
        most: the greatest size in bytes, a whole number of MiB.
        kind: what the file should be, for the message about its size.

    Raises:
        ThresholdError: it is not a readable, regular file of at most this size.
    """
    try:
        data = _bytes(path, most)
    except OSError as error:
        hint = {
            errno.EISDIR: "it is a folder",
            errno.ENOENT: "there is no such file",
            errno.EINVAL: "it is not a regular file",
        }.get(error.errno or 0, error.strerror or str(error))
        raise ThresholdError([f"{name}: cannot be read: {hint}"]) from None
    _check_size(data, name, most, kind)
    return data


def _check_size(data: bytes, name: str, most: int, kind: str) -> None:
    if len(data) > most:
        raise ThresholdError([f"{name}: is larger than {most >> 20} MiB; no {kind} is"])


def _bytes(path: Path, most: int) -> bytes:
    # Non-blocking: opening a named pipe would wait for its writer.
    file = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    with open(file, "rb") as stream:  # noqa: PTH123 - a descriptor
        mode = os.fstat(file).st_mode
        if stat.S_ISDIR(mode):
            raise OSError(errno.EISDIR, "is a folder")
        if not stat.S_ISREG(mode):
            raise OSError(errno.EINVAL, "is not a regular file")
        return stream.read(most + 1)
