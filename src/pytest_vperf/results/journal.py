"""The journal of a run: its claims so far, one per line, in a file next to the record's.

A claim that is judged in several sessions has a line before it is over, too: what was measured of it by then.

The process may be killed at any moment. All appended lines are then in the file, the last one perhaps cut off;
`pytest_vperf.results.reading` reads it. When the run ends, the whole record is written and the journal removed.
"""

from __future__ import annotations

import errno
import os
import re
import secrets
import stat
import time
from contextlib import suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

from pytest_vperf.machine import whole_file
from pytest_vperf.machine.lock import try_lock

if TYPE_CHECKING:
    from collections.abc import Iterator

#: Appended to the name of the record's file.
_NAME = ".journal-{}"
_MARK = re.compile(r"[0-9a-f]{12}")
#: Waiting for the disk takes at most one part in this many of a run's time.
_SYNC_SHARE = 20
#: How lines begin: the first one, and that of the fillings.
HEAD, FILLINGS = '{"journal": ', '{"fillings": '
#: The line of a claim: without a number, of one that had no line before; ``begun`` of one that is not over, which
#: counts until a later line of the same number; ``over`` of one that was begun.
_CLAIM = re.compile(rb'\{(?:"(?P<state>begun|over)": (?P<number>[0-9]{1,9}), )?"claim": (?=\{)')


class Claim(NamedTuple):
    """A claim's line.

    Attributes:
        text: its record, as JSON.
        number: of a claim that was begun before it was over; ``None`` of one that was not.
        over: whether it is.
    """

    text: bytes
    number: int | None
    over: bool


def claim_line(record: str, number: int | None = None, *, over: bool = True) -> str:
    """The line of a claim.

    Args:
        record: as JSON.
        number: see `Claim`.
        over: likewise.
    """
    state = "" if number is None else f'"{"over" if over else "begun"}": {number}, '
    return f'{{{state}"claim": {record}}}'


def claim_of(line: bytes) -> Claim | None:
    """The claim that a line has; ``None`` if it has none, or is cut off."""
    found = _CLAIM.match(line)
    if found is None or not line.endswith(b"}}\n"):
        return None
    number = found["number"]
    text = line[found.end() : -2]
    return Claim(text, int(number) if number else None, found["state"] != b"begun")


def is_journal_of(name: str, record: str) -> bool:
    """Whether a file is named like a journal of the record in a file ``record``."""
    start = record + _NAME.format("")
    return name.startswith(start) and _MARK.fullmatch(name[len(start) :]) is not None


def record_of(name: str) -> str:
    """The name of the file of the record that a journal belongs to."""
    return name.rpartition(_NAME.format(""))[0]


def new_mark() -> str:
    """An unpredictable ending for the name of a journal."""
    return secrets.token_hex(6)


def journal_name(record: str, mark: str) -> str:
    """The name of the journal with this mark, of the record in a file ``record``."""
    return record + _NAME.format(mark)


class Journal:
    """The journal of a running run; made by `begin`.

    Its file is private, has an unpredictable name, and is locked while this process lives, which tells it from one
    left by a killed run.

    A killed process loses nothing that it has written; a machine that loses power does. So each line is followed by
    fdatasync(2), between measurements and not during one, but for no more than a twentieth of the time: if claims end
    faster than twenty such waits, the wait after a later claim, or the end of the run, covers them.

    Attributes:
        mark: the ending of its name.
        name: of its file.
        path: of its file, for messages.
    """

    def __init__(self, place: whole_file.Place, folder: int, mark: str) -> None:
        self.mark = mark
        self.name = journal_name(place.name, mark)
        self._folder = folder
        flags = os.O_RDWR | os.O_APPEND | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
        self._file = os.open(self.name, flags, 0o600, dir_fd=folder)
        with suppress(OSError):  # a file system without locks
            try_lock(self._file)
        self.path = whole_file.path_in(folder, self.name)
        self._size = 0
        self._next_sync = 0.0

    @classmethod
    def begin(cls, place: whole_file.Place, mark: str) -> Journal:
        """Start the journal of a record that will be written at a place.

        Args:
            place: where the record will be.
            mark: from `new_mark`.

        Raises:
            OSError: the folder cannot be written.
        """
        folder = os.dup(place.folder)
        try:
            return cls(place, folder, mark)
        except BaseException:
            os.close(folder)
            raise

    def append(self, line: str) -> None:
        """Append a line, whole or not at all.

        Raises:
            OSError: it cannot be written, for instance because the disk is full.
        """
        left = memoryview(f"{line}\n".encode())
        size = len(left)
        try:
            while left:
                left = left[os.write(self._file, left) :]
            self._sync()
        except OSError:
            with suppress(OSError):  # later lines must not follow half a line
                os.ftruncate(self._file, self._size)
            raise
        self._size += size

    def _sync(self) -> None:
        began = time.monotonic()
        if began < self._next_sync:
            return
        try:
            os.fdatasync(self._file)
        except OSError as error:
            if (
                error.errno != errno.EINVAL
            ):  # a file system without sync: the line is written anyway
                raise
        ended = time.monotonic()
        self._next_sync = ended + (ended - began) * (_SYNC_SHARE - 1)

    def remove(self) -> None:
        """Remove the journal once the record is written. If that fails, the next run finds it."""
        with suppress(OSError):
            os.unlink(self.name, dir_fd=self._folder)
        self.close()

    def close(self) -> None:
        """Close the file without removing it."""
        os.close(self._file)
        os.close(self._folder)


@dataclass(frozen=True)
class Leftover:
    """A journal left by a killed run.

    Attributes:
        path: of the file.
        claims: the number of claims in it.
    """

    path: str
    claims: int


def leftovers(place: whole_file.Place) -> Iterator[Leftover]:
    """The journals next to a record's file, from killed runs that never wrote their record.

    Removes those without claims, those whose record was written just before the kill, and the drafts of all those
    runs.
    """
    try:
        names = whole_file.names(place.folder)
    except OSError:
        return  # a folder that is writable but not readable
    for name in sorted(each for each in names if is_journal_of(each, place.name)):
        with suppress(OSError):
            mark = name.rpartition("-")[2]
            claims = _count(place.folder, name)
            if claims is None:
                continue
            place.remove(draft_name(place.name, mark))
            if not claims or _is_record_of(place, mark):
                place.remove(name)
            else:
                yield Leftover(whole_file.path_in(place.folder, name), claims)


def claims_in(place: whole_file.Place, mark: str) -> list[str]:
    """The claims of one of our own journals that were over, each as JSON; none if there is no such journal.

    Raises:
        OSError: it cannot be read.
    """
    flags = os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC
    try:
        file = os.open(journal_name(place.name, mark), flags, dir_fd=place.folder)
    except FileNotFoundError:
        return []
    with open(file, "rb") as stream:  # noqa: PTH123 - a descriptor
        found = [claim_of(line) for line in stream]
    return [each.text.decode() for each in found if each is not None and each.over]


def draft_name(name: str, mark: str) -> str:
    """The name of the temporary file in which the record of the run with this mark is written."""
    return f".{name[:200]}-{mark}"


def _count(folder: int, name: str) -> int | None:
    """The number of claims in a journal; ``None`` if it is not ours, or its run is still alive."""
    flags = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
    with open(os.open(name, flags, dir_fd=folder), "rb") as stream:  # noqa: PTH123 - a descriptor
        found = os.fstat(stream.fileno())
        if not stat.S_ISREG(found.st_mode) or found.st_uid != os.geteuid():
            return None
        if not try_lock(stream.fileno(), shared=True):
            return None
        # A cut-off last line does not count: its claim was never reported.
        over, begun = 0, set[int | None]()
        for line in iter(lambda: stream.readline(64 << 20), b""):
            if (claim := claim_of(line)) is None:
                continue
            over += claim.over
            (begun.discard if claim.over else begun.add)(claim.number)
        return over + len(begun)


def _is_record_of(place: whole_file.Place, mark: str) -> bool:
    """Whether the record is that of the run with this mark, and complete."""
    flags = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
    try:
        with open(os.open(place.name, flags, dir_fd=place.folder), "rb") as stream:  # noqa: PTH123
            head = stream.read(4096)
    except OSError:
        return False
    return f'"run": "{mark}"'.encode() in head and b'"unfinished": ""' in head
