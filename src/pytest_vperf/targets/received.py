"""What a target sends: a command's output, and a file. Neither may fill this machine's memory or its disk.

Who prints or sends without end is ended as soon as there is more than was asked for, and not when the time is up.
"""

from __future__ import annotations

import contextlib
import io
import os
import secrets
import stat
from dataclasses import dataclass
from typing import TYPE_CHECKING, BinaryIO

from pytest_vperf.targets.base import TargetError, TooMuchOutput

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from pathlib import Path

#: Bits of its mode that a file may bring: it is ours now, so nobody else writes to it, and it gives no privilege.
_MODE = 0o755


class Output:
    """What a command prints, until it is too much.

    Args:
        most: bytes that are kept of both outputs together; what comes after them is dropped.
        stdout: where standard output goes instead of into memory.

    Attributes:
        is_full: more came than is kept.
    """

    def __init__(self, most: int, stdout: BinaryIO | None = None) -> None:
        # Of a BytesIO, the whole is had without a copy.
        self._stdout = stdout or io.BytesIO()
        self._stderr = io.BytesIO()
        self._room = most
        self.is_full = False

    def take_stdout(self, data: bytes) -> None:
        """Keep what came of it, as far as there is room."""
        self._take(self._stdout, data)

    def take_stderr(self, data: bytes) -> None:
        """Likewise."""
        self._take(self._stderr, data)

    def _take(self, stream: BinaryIO, data: bytes) -> None:
        self.is_full = self.is_full or len(data) > self._room
        data = data[: self._room]
        self._room -= len(data)
        stream.write(data)

    @property
    def stdout(self) -> bytes:
        """What is kept of it; nothing where it went somewhere else."""
        return self._stdout.getvalue() if isinstance(self._stdout, io.BytesIO) else b""

    @property
    def stderr(self) -> bytes:
        """Likewise."""
        return self._stderr.getvalue()

    def too_much(self, argv: Sequence[str], most: int, target: str) -> TooMuchOutput:
        """The error of a command that printed more, and was ended."""
        return TooMuchOutput(
            f"{' '.join(argv)} printed more than {size(most)} in {target}, and was ended: let it write to a file"
            " and get() that, or give run() a larger max_output",
            target=target,
            stdout=self.stdout,
            stderr=self.stderr,
        )


def too_large(source: str, most: int, target: str) -> TooMuchOutput:
    """The error of a file that has more bytes than was said."""
    return TooMuchOutput(
        f"{source} in {target} has more than {size(most)}: give get() a larger limit", target=target
    )


def size(count: int) -> str:
    """A number of bytes in words: ``8 MiB``, ``100 bytes``."""
    for unit, shift in (("GiB", 30), ("MiB", 20), ("KiB", 10)):
        if count and not count % (1 << shift):
            return f"{count >> shift} {unit}"
    return f"{count} bytes"


@dataclass
class Draft:
    """A file that is being filled.

    Attributes:
        file: its content goes there.
        mode: that it will have, as far as a foreign file may have it.
    """

    file: BinaryIO
    mode: int = 0o644


@contextlib.contextmanager
def received(destination: Path, target: str) -> Iterator[Draft]:
    """A file of this machine that a target sends: there under its name when it is whole, and else not at all.

    A file or a link that has the name is replaced, and the link is not followed.

    Args:
        destination: its path.
        target: that sends it, for messages.

    Raises:
        TargetError: it cannot be written; or something has its name that is no file.
    """
    draft = destination.with_name(f".{secrets.token_hex(8)}")
    flags = os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
    try:
        with contextlib.suppress(FileNotFoundError):
            there = destination.lstat().st_mode
            if not (stat.S_ISREG(there) or stat.S_ISLNK(there)):
                raise TargetError(
                    f"{destination} cannot be written: it is not a regular file", target=target
                )
        descriptor = os.open(draft, flags, 0o600)
        try:
            with os.fdopen(descriptor, "w+b") as file:
                kept = Draft(file)
                yield kept
                file.flush()
                os.fchmod(file.fileno(), kept.mode & _MODE)
            draft.replace(destination)
        except BaseException:
            with contextlib.suppress(OSError):
                draft.unlink()
            raise
    except OSError as error:
        raise TargetError(
            f"{destination} cannot be written: {error.strerror}", target=target
        ) from error
