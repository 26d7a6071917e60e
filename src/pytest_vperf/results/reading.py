"""Reads the record of a run, or the journal of an unfinished one, in bounded memory.

A file may be broken or malicious, and parsed JSON takes up to thirty times the memory of its text, so the amount
parsed at once is limited. `pytest_vperf.results.run` writes one claim per line, and they are read one at a time; a
file that another program has reformatted is read whole, and has to be that much smaller.

Each reader declares the keys it needs, and their types, as a `Part`; a record has many more keys.
"""

from __future__ import annotations

import errno
import hashlib
import json
import os
import stat
from dataclasses import dataclass
from datetime import datetime
from typing import TYPE_CHECKING, Annotated, Any, BinaryIO, Generic, TypeVar

from pydantic import AfterValidator, BaseModel, ConfigDict, ValidationError

from pytest_vperf.results import journal
from pytest_vperf.results.run import FORMAT
from pytest_vperf.thresholds.text_file import key_path, shown

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable
    from pathlib import Path

_Claim = TypeVar("_Claim")

#: A run of all claims takes some 10 MB, nearly all of it samples.
MAX_BYTES = 256 << 20
#: The limit for one claim, or for a whole file that does not have one claim per line.
MAX_PART = 32 << 20
#: The most values in such a part; a sample has some twenty.
MAX_VALUES = 2_000_000
MAX_CLAIMS = 100_000


class RecordProblem(Exception):
    """A file cannot be read as a record; the message says why, without the file's name."""


class ForeignFile(RecordProblem):
    """A file does not have the form of any record."""


class WrongShape(Exception):
    """A part of a record is valid JSON of the wrong shape; the message names the keys."""


def _moment(text: str) -> str:
    if datetime.fromisoformat(text).tzinfo is None:
        raise ValueError("a time without a time zone")
    return text


Moment = Annotated[str, AfterValidator(_moment)]


class Part(BaseModel):
    """The keys needed of a part of a record (`docs/results.md`)."""

    model_config = ConfigDict(strict=True, allow_inf_nan=False, extra="ignore", frozen=True)


_Part = TypeVar("_Part", bound=Part)


def check_format(head: dict[str, Any]) -> None:
    """Refuse a record of another format version.

    Raises:
        RecordProblem: the version differs.
    """
    if head.get("format") != FORMAT or isinstance(head["format"], bool):
        raise RecordProblem(
            f"has format {shown(head.get('format'))}, and this vperf reads {FORMAT}"
        )


def checked(part: type[_Part], data: Any, where: str = "", *, most: int = 1) -> _Part:
    """Parse and check a part of a record.

    Args:
        part: its model.
        data: its JSON, or a value parsed from JSON.
        where: its place in the record, for messages.
        most: the greatest number of problems to name.

    Raises:
        RecordProblem: it is not JSON.
        WrongShape: it does not fit the model.
    """
    if not isinstance(data, bytes):
        data = json.dumps(data, ensure_ascii=False).encode("utf-8", "replace")
    try:
        return part.model_validate_json(data)
    except ValidationError as error:
        problems = error.errors(include_url=False, include_input=False)
    if problems[0]["type"] == "json_invalid":
        raise RecordProblem(f"is not JSON: {where}{problems[0]['msg']}")
    told = [f"{where}{key_path(each['loc']) or 'JSON'}: {each['msg']}" for each in problems]
    more = f"; … {len(told) - most} more" if len(told) > most > 1 else ""
    raise WrongShape("; ".join(told[:most]) + more)


@dataclass
class Document(Generic[_Claim]):
    """The content of a file.

    Attributes:
        head: every key of the document but ``claims``, those behind them, too.
        claims: the result of ``claim`` for each claim; ``None`` if the document has no list of claims.
        note: a remark about an unfinished run; otherwise empty.
        torn: whether the last line of a journal is cut off; ``None`` for a whole record.
        begun: how many of the claims of a journal were not over.
    """

    head: dict[str, Any]
    claims: list[_Claim] | None = None
    note: str = ""
    torn: bool | None = None
    begun: int = 0


def read(
    path: Path, check: Callable[[dict[str, Any]], None], claim: Callable[[int, bytes], _Claim]
) -> Document[_Claim]:
    """Read a file.

    Args:
        path: the file. For an unfinished record, the journal next to it is read, and those of the same run's
        pytest-xdist workers.
        check: is called with the document without its claims, before those are read; its errors propagate.
        claim: converts a claim, given its number, counted from 0, and its JSON; its errors propagate.

    Raises:
        RecordProblem: it cannot be read, is too large, or is not JSON.
    """
    reader = _Reader(check, claim)
    found = reader.read(path)
    real = path.resolve()
    if name := found.head.get("unfinished", ""):
        if not isinstance(name, str) or not journal.is_journal_of(name, real.name):
            raise RecordProblem("names something other than its journal as unfinished")
        real = real.with_name(name)
        try:
            found = reader.read(real)
        except RecordProblem as error:
            raise RecordProblem(f"its run did not finish, and its journal {real} {error}") from None
    if found.claims is not None and found.torn is not None:
        for part in _parts(real, found.head):
            more = reader.read(part, reader.known)
            found.claims += more.claims or []
            found.begun += more.begun
        count = "1 claim" if len(found.claims) == 1 else f"{len(found.claims)} claims"
        left = f", {found.begun} of them unfinished" if found.begun else ""
        torn = "; its last line is cut off: that claim was not yet reported" if found.torn else ""
        found.note = f"the run did not finish: its journal has {count}{left}{torn}"
    return found


def head_of(path: Path) -> dict[str, Any]:
    """All of a record but its claims, from its first line alone.

    Raises:
        RecordProblem: it cannot be read, or does not have one claim per line.
    """
    with _opened(path) as stream:
        line = _Lines(stream).next().rstrip()
    if not line.endswith(b'"claims": ['):
        raise ForeignFile("does not begin like a record")
    return _object(line + b"]}")


def _parts(real: Path, head: dict[str, Any]) -> list[Path]:
    """The journals of workers next to that of their run."""
    record, mark = journal.record_of(real.name), head.get("run")
    found = []
    try:
        names = sorted(each for each in real.parent.iterdir())
    except OSError:
        return []
    for each in names:
        if each != real and journal.is_journal_of(each.name, record):
            try:
                with _opened(each) as stream:
                    first = _object(stream.readline(MAX_PART))
            except RecordProblem:
                continue
            own = first.get("journal")
            if isinstance(own, dict) and mark and own.get("part_of") == mark:
                found.append(each)
    return found


def _opened(path: Path) -> BinaryIO:
    try:
        # Non-blocking: opening a named pipe would wait for its writer.
        file = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
        mode = os.fstat(file).st_mode
        if not stat.S_ISREG(mode):
            os.close(file)
            raise OSError(errno.EISDIR if stat.S_ISDIR(mode) else errno.EINVAL, "")
    except OSError as error:
        hint = {
            errno.EISDIR: "it is a folder",
            errno.ENOENT: "there is no such file",
            errno.EINVAL: "it is not a regular file",
        }.get(error.errno or 0, error.strerror or str(error))
        raise RecordProblem(f"cannot be read: {hint}") from None
    return open(file, "rb", buffering=1 << 16)  # noqa: PTH123 - a descriptor


@dataclass
class _Lines:
    """The lines of a file, limited in length and in total size."""

    stream: BinaryIO
    read: int = 0

    def next(self) -> bytes:
        try:
            line = self.stream.readline(MAX_PART + 1)
        except OSError as error:
            raise RecordProblem(f"cannot be read: {error.strerror or error}") from None
        self.read += len(line)
        if self.read > MAX_BYTES:
            raise RecordProblem(f"is larger than {MAX_BYTES >> 20} MiB; no record is")
        return line

    def set_aside(self, line: bytes) -> int:
        """Where the line that was read last begins; it counts only if it is read again from there."""
        self.read -= len(line)
        return self.stream.tell() - len(line)

    def again(self, place: int) -> bytes:
        """A line that was set aside."""
        self.stream.seek(place)
        return self.next()


class _Reader(Generic[_Claim]):
    """Reads files.

    Attributes:
        known: digests of the claims read so far.
    """

    def __init__(
        self, check: Callable[[dict[str, Any]], None], claim: Callable[[int, bytes], _Claim]
    ) -> None:
        self._check = check
        self._claim = claim
        self._seen: frozenset[bytes] = frozenset()
        self._number = 0
        self.known: set[bytes] = set()

    def read(self, path: Path, seen: Iterable[bytes] = ()) -> Document[_Claim]:
        """Read a file, skipping claims whose digests were ``seen``."""
        self._seen = frozenset(seen)
        with _opened(path) as stream:
            lines = _Lines(stream)
            first = lines.next()
            if first.startswith(journal.HEAD.encode()):
                return self._journal(first, lines)
            if first.rstrip().endswith(b'"claims": ['):
                return self._lines(first, lines)
            parts = [first]
            while lines.read <= MAX_PART and (line := lines.next()):
                parts.append(line)
        return self._whole(b"".join(parts))

    def _lines(self, first: bytes, lines: _Lines) -> Document[_Claim]:
        """Read a record with one claim per line."""
        claims: list[_Claim] = []
        found = Document(_object(first.rstrip() + b"]}"), claims)
        self._check(found.head)
        del found.head["claims"]
        while not (line := lines.next()).startswith(b"]"):
            self._add(claims, _whole_line(line).rstrip(b","))
        rest = _object(first.rstrip() + b"\n" + line)  # what follows the claims
        found.head |= {key: value for key, value in rest.items() if key != "claims"}
        if lines.next():
            raise RecordProblem("is not JSON: there is more after its end")
        return found

    def _journal(self, first: bytes, lines: _Lines) -> Document[_Claim]:
        """Read a journal. A cut-off last line is dropped: its claim was never reported."""
        claims: list[_Claim] = []
        found: Document[_Claim] = Document({}, claims)
        fillings: dict[str, Any] = {}
        begun: dict[int, int] = {}  # where the last line of each is that is not over
        line = first
        while line.endswith(b"\n"):
            if (claim := journal.claim_of(line)) is not None:
                if claim.number is not None:
                    begun.pop(claim.number, None)
                if claim.over:
                    self._add(claims, claim.text)
                elif claim.number is not None:
                    self._check_number(len(begun))
                    begun[claim.number] = lines.set_aside(line)
            elif line.startswith(journal.HEAD.encode()):
                head = _object(line)["journal"]
                if not isinstance(head, dict):
                    raise RecordProblem("is not the JSON of a journal")
                self._check({**head, "claims": []})
                found.head = head
            elif line.startswith(journal.FILLINGS.encode()):
                fillings = _object(line)
            else:
                raise RecordProblem("is a journal with a line that does not belong in one")
            line = lines.next()
        if not found.head:
            raise RecordProblem("is not JSON: it is cut off in its first line")
        found.head |= fillings
        found.torn = bool(line)
        for place in begun.values():
            if (claim := journal.claim_of(lines.again(place))) is not None:
                self._add(claims, claim.text)
        found.begun = len(begun)
        return found

    def _whole(self, data: bytes) -> Document[_Claim]:
        """Read a record in any other layout."""
        head = _object(data)
        self._check(head)
        parts = head.get("claims")
        if not isinstance(parts, list):
            return Document(head)
        del head["claims"]
        claims: list[_Claim] = []
        for each in parts:
            self._add(claims, json.dumps(each, ensure_ascii=False).encode("utf-8", "replace"))
        return Document(head, claims)

    def _add(self, claims: list[_Claim], text: bytes) -> None:
        self._check_number(self._number)
        _check_size(text)
        digest = hashlib.sha256(text).digest()
        if digest in self._seen:
            return
        self.known.add(digest)
        if b"\\u" in text:  # perhaps half a surrogate pair, which pydantic refuses
            text = json.dumps(_parsed(text), ensure_ascii=False).encode("utf-8", "replace")
        claims.append(self._claim(self._number, text))
        self._number += 1

    def _check_number(self, number: int) -> None:
        if number >= MAX_CLAIMS:
            raise RecordProblem(f"has more than {MAX_CLAIMS} claims; no record has")


def parsed_object(data: bytes) -> dict[str, Any]:
    """The object that a text of JSON is; its size was checked before.

    Raises:
        ForeignFile: it is no object.
    """
    return _object(data)


def _object(data: bytes) -> dict[str, Any]:
    _check_size(data)
    value = _parsed(data)
    if not isinstance(value, dict):
        raise ForeignFile("is not a record of `pytest --claims-json`")
    return value


def _parsed(data: bytes) -> Any:
    try:
        return json.loads(data)
    except RecursionError:
        raise ForeignFile("is nested too deeply for a record") from None
    except (
        ValueError
    ) as error:  # JSON's own, UTF-8's, and that of a number with thousands of digits
        raise RecordProblem(f"is not JSON: {error}") from None


def _check_size(data: bytes) -> None:
    if len(data) > MAX_PART:
        raise RecordProblem(
            f"is larger than {MAX_PART >> 20} MiB without one claim per line, or has a claim of that size"
        )
    if data.count(b",") + data.count(b"[") + data.count(b"{") > MAX_VALUES:
        raise RecordProblem(f"has more than {MAX_VALUES} values in one claim, or in one line")


def _whole_line(line: bytes) -> bytes:
    if not line.endswith(b"\n"):
        raise RecordProblem(
            "is not JSON: it is cut off" if len(line) <= MAX_PART else "has a line too long"
        )
    return line.rstrip()
