"""The record of a run: its claims in the order they ended, and the file they are kept in.

In JUnit XML a claim becomes properties of its test case.
"""

from __future__ import annotations

import errno
import os
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import datetime, timezone
from typing import TYPE_CHECKING, Any, cast

from pytest_vperf import foreign_text
from pytest_vperf.foreign_text import to_json
from pytest_vperf.machine import whole_file
from pytest_vperf.results import journal
from pytest_vperf.results.record import from_wire, lines_from_wire, once, sound

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping
    from pathlib import Path

    from pytest_vperf.results.record import ClaimRecord, FillingRecord


def properties(record: ClaimRecord) -> Iterator[tuple[str, object]]:
    """The properties ``vperf.NAME.KEY`` of a claim; unknown values are left out, never written as 0."""
    prefix = f"vperf.{foreign_text.line(record['name'])}"
    interval = record["interval"]
    values: dict[str, object] = {
        "verdict": record["verdict"],
        "reason": record["reason"],
        "cause": record["cause"],
        "estimate": record["estimate"],
        "low": interval[0] if interval else None,
        "high": interval[1] if interval else None,
        "unit": record["unit"],
        "threshold": record["threshold"],
        "criterion": record["criterion"],
        "samples": record["n"],
        "sessions": len(record["sessions"]) or None,
        "target": record["target"],
        "profile": record["hardware"]["profile"],
        "machine": record["machine"].get("name"),
    }
    for arm, own in record["arms"].items():
        side = record["sides"].get(arm, arm)
        values |= {
            f"{side}.median": own["estimate"],
            f"{side}.unit": own["unit"],
            f"{side}.samples": own["n"],
        }
        values |= dict(zip((f"{side}.low", f"{side}.high"), own["interval"], strict=True))
    for key, value in values.items():
        if value is not None and value != "":
            yield f"{prefix}.{key}", foreign_text.lines(value) if isinstance(value, str) else value


#: Incremented with every change that a reader of the file must know about.
FORMAT = 1


def now() -> str:
    """The time in UTC, ISO 8601, to the second."""
    return datetime.now(timezone.utc).isoformat(timespec="seconds")


def _started() -> str:
    """The same to the millisecond: the last run is the last one, also of two in one second."""
    return datetime.now(timezone.utc).isoformat(timespec="milliseconds")


def _nobody(told: object) -> None:
    """Ignore it."""


@dataclass
class RunRecord:
    """The measurements of one pytest run.

    Each claim is appended to a journal next to the file when it ends (`pytest_vperf.results.journal`), and `finish`
    writes the file. Until then the file has no claims and names the journal: an old file must not be mistaken for
    this run's.

    Under pytest-xdist each worker keeps a part, a journal of the claims that ended there, since these reach the
    controller only with the report of their test. The controller names the parts (`new_part`), and when it finishes
    it adds the claims it was not sent because a worker crashed.

    A record that only a store keeps (``lasting`` is false) has a journal, too, and no file.

    A full disk does not end the run: lines that cannot be written stay in memory, and writing is tried again with
    every claim and at the end.

    Attributes:
        path: the file; ``None`` keeps the record in memory only.
        lasting: whether the file is written; otherwise its journal stays until `kept_elsewhere`.
        profile: the hardware profile as described in the header; set when it is chosen.
        asked: what the run was asked for, see `pytest_vperf.run.asked`.
        sides: of a gate, by name: what each of its settings is; empty in another run.
        fingerprint: the machine's; set at the same time.
        machines: of a fleet, by name: the type and fingerprint of each; empty in another run.
        claims: in the order they ended.
        fillings: of hosts, in the order they ended.
        mark: a random identifier of the run.
        result: how the run ended, as `pytest_vperf.run.result` has it; ``None`` while it goes on.
        whole: for a part, the mark of the run it belongs to; otherwise empty.
        tell: receives a message, once, if something cannot be written, and about journals left by killed runs.
        judged: receives each claim once it is kept.
        trouble: why the record is not where it belongs; empty if it is.
    """

    path: Path | None = None
    lasting: bool = True
    started: str = field(default_factory=_started)
    profile: Mapping[str, Any] | None = None
    asked: Mapping[str, Any] = field(default_factory=dict)
    sides: Mapping[str, Any] = field(default_factory=dict)
    fingerprint: Mapping[str, Any] | None = None
    machines: Mapping[str, Mapping[str, str]] = field(default_factory=dict)
    claims: list[ClaimRecord] = field(default_factory=list)
    fillings: list[FillingRecord] = field(default_factory=list)
    result: Mapping[str, Any] | None = None
    mark: str = field(default_factory=journal.new_mark)
    whole: str = ""
    tell: Callable[[str], None] = _nobody
    judged: Callable[[ClaimRecord], None] = _nobody
    trouble: str = ""
    _journal: journal.Journal | None = None
    _lines: list[bytes] = field(default_factory=list)  # each claim as JSON, as it was when it ended
    _written: int = 0  # how many of them are in the journal
    _begun: dict[tuple[object, ...], int] = field(default_factory=dict)
    _over: dict[int, int] = field(
        default_factory=dict
    )  # by place in the lines, the number of one that was begun
    _head: Mapping[str, Any] = field(default_factory=dict)  # as the journal has it
    _last: dict[str, ClaimRecord] = field(default_factory=dict)  # by machine of a fleet
    _fillings: str = ""
    _told: bool = False
    _parts: list[str] = field(default_factory=list)

    def begin(self) -> None:
        """Start the journal and the file, before anything is measured; a second call does nothing.

        Raises:
            OSError: the file cannot be written there; an older one is unchanged.
        """
        if self.path is None or self._journal is not None:
            return
        with whole_file.place(self.path) as place:
            if place.stream is not None:
                raise OSError(errno.EINVAL, "is not a file")
            left = list(journal.leftovers(place)) if not self.whole else []
            begun = journal.Journal.begin(place, self.mark)
            head = self._head_values()
            try:
                begun.append(_head_line(head))
                if self.lasting and not self.whole:
                    draft = journal.draft_name(place.name, self.mark)
                    place.write(self._document([], unfinished=begun.name), draft=draft)
            except BaseException:
                begun.remove()
                raise
        self._journal, self._head = begun, head
        self._written, self._fillings = 0, ""
        for each in left:
            count = f"{each.claims} claim{'s' if each.claims > 1 else ''}"
            self.tell(
                f"a run that was killed left {count} in {each.path}: `vperf claims` reads it, and it "
                "stays until you remove it"
            )

    def add(self, record: ClaimRecord) -> ClaimRecord:
        """Add a claim's record, and append it to the journal at once: the next claim may kill the process.

        Returns:
            the record as stored, see `pytest_vperf.results.record.sound`.
        """
        return self.extend([record])[0]

    def extend(self, records: Iterable[ClaimRecord]) -> list[ClaimRecord]:
        """Add several records, as `add` does."""
        return self._keep((record, "") for record in records)

    def take(self, wire: str) -> list[ClaimRecord]:
        """Add the records that a worker has sent, as `extend` does.

        Args:
            wire: a text made by `pytest_vperf.results.record.to_wire`.
        """
        return self._keep(lines_from_wire(wire))

    def _keep(self, records: Iterable[tuple[ClaimRecord, str]]) -> list[ClaimRecord]:
        """Add records, each with its line, which may be empty."""
        kept = []
        for record, line in records:
            if not line:
                try:
                    line = to_json(record)
                except (ValueError, TypeError, RecursionError):
                    record = sound(record)
                    line = to_json(record)
            if self.machines:
                record = self._shared(record)
            kept.append(record)
            if self.path is not None:
                if number := self._begun.get(_identity(record)):
                    self._over[len(self._lines)] = number
                self._lines.append(line.encode())
        self.claims += kept
        if kept and self.path is not None:
            self._append()
        for record in kept:
            self.judged(record)
        return kept

    def _shared(self, record: ClaimRecord) -> ClaimRecord:
        """A record of a fleet with the very values of the one before it from the same machine, where they are equal:
        of thousands of records, most of the memory is for what they say alike. Nobody changes a value later.
        """
        name = record["machine"].get("name", "")
        self._last[name] = found = cast("ClaimRecord", once(record, self._last.get(name)))
        return found

    def begun(self, record: ClaimRecord) -> None:
        """Put what was measured of a claim into the journal, where it is not over and later sessions are to come; the
        record itself is added when it is."""
        if self.path is None:
            return
        number = self._begun.setdefault(_identity(record), len(self._begun) + 1)
        self._append(journal.claim_line(to_json(record), number, over=False))

    def fillings_changed(self) -> None:
        """Write the fillings to the journal, after one was added or changed."""
        if self.path is not None:
            self._append()

    def finish(self) -> None:
        """Write the whole record and remove the journal; if that fails, the journal stays, and `trouble` says why.

        May be called again after more claims.
        """
        self._take_parts()
        if self.path is None or self._journal is None or self.whole:
            return
        self._append()
        if not self.lasting:
            return
        try:
            with whole_file.place(self.path) as place:
                draft = journal.draft_name(place.name, self.mark)
                place.write(self._document(self._lines), draft=draft)
                self._remove_parts(place)
        except OSError as error:
            where = f"{self._written} of {len(self._lines)} claims are in {self._journal.path}"
            if self._written < len(self._lines) and (elsewhere := self.save_elsewhere()):
                where = f"the record is in {elsewhere}"
            self.trouble = f"{self.path} cannot be written: {_why(error)}; {where}"
            self._journal.close()
        else:
            self.trouble = ""
            self._journal.remove()
        self._journal = None

    def kept_elsewhere(self) -> None:
        """Remove the journal of a record that is not `lasting`: the record is whole in another place."""
        if self.path is None or self.lasting or self._journal is None:
            return
        with suppress(OSError), whole_file.place(self.path) as place:
            self._remove_parts(place)
        self._journal.remove()
        self._journal, self.trouble = None, ""

    @property
    def journal_path(self) -> str:
        """Where the journal is; empty without one."""
        return self._journal.path if self._journal is not None else ""

    def _remove_parts(self, place: whole_file.Place) -> None:
        for part in self._parts:
            place.remove(journal.journal_name(place.name, part))

    def new_part(self) -> str:
        """The mark of a new part of this run, for a process that also gets ``path`` and our ``mark``."""
        self._parts.append(journal.new_mark())
        return self._parts[-1]

    def _take_parts(self) -> None:
        """Add the claims in parts that were not sent to us."""
        if self.path is None or not self._parts:
            return
        known = set(self._lines)
        for part in self._parts:
            try:
                with whole_file.place(self.path) as place:
                    texts = journal.claims_in(place, part)
            except (OSError, ValueError) as error:
                self.tell(f"the journal of a worker cannot be read: {error}")
                continue
            self.extend(
                from_wire(f"[{', '.join(text for text in texts if text.encode() not in known)}]")
            )

    def save_elsewhere(self) -> str:
        """Write the record to a private file in the folder for temporary files; return its path, empty if that
        fails."""
        import tempfile

        try:
            file, path = tempfile.mkstemp(prefix="vperf-record-", suffix=".json")
        except OSError:
            return ""
        try:
            with os.fdopen(file, "wb") as stream:
                stream.writelines(self._document(self._lines if self.path else self._encoded()))
        except OSError:
            with suppress(OSError):
                os.unlink(path)  # noqa: PTH108
            return ""
        return path

    def _append(self, last: str = "") -> None:
        """Bring the journal up to date as far as the disk allows; the rest is written with the next claim.

        Args:
            last: a line that follows; it is not written again.
        """
        try:
            self.begin()
            assert self._journal is not None
            head = self._head_values()
            if (
                head != self._head
            ):  # quick: its values are the same objects, unless one was set anew
                self._journal.append(_head_line(head))
                self._head = head
            for line in self._lines[self._written :]:
                number = self._over.get(self._written)
                self._journal.append(journal.claim_line(line.decode(), number))
                self._written += 1
            fillings = self._fillings_text()
            if fillings != (self._fillings or "[]"):
                self._journal.append(f"{journal.FILLINGS}{fillings}}}")
                self._fillings = fillings
            if last:
                self._journal.append(last)
        except OSError as error:
            where = self._journal.path if self._journal else self.path
            self.trouble = f"{where} cannot be written: {_why(error)}"
            if not self._told:
                self._told = True
                self.tell(
                    f"{self.trouble}; measuring goes on, and writing is tried again with every claim and at the end"
                )
        else:
            self.trouble = ""

    def _head_values(self) -> dict[str, Any]:
        from pytest_vperf import __version__

        return {
            "format": FORMAT,
            "vperf": __version__,
            "run": self.mark,
            "started": self.started,
            "asked": self.asked,
            "profile": self.profile,
            "sides": self.sides,
            "fingerprint": self.fingerprint,
            "machines": self.machines,
            **({"part_of": self.whole} if self.whole else {}),
        }

    def of_machines(self) -> list[RunRecord]:
        """The record of each machine of a fleet that has claims in this one; of another run, this one alone."""
        if not self.machines:
            return [self]
        found = []
        own: dict[str, list[ClaimRecord]] = {}
        for each in self.claims:
            own.setdefault(each["machine"].get("name", ""), []).append(each)
        for name, facts in self.machines.items():
            if claims := own.get(name):
                fingerprint = {key: each for key, each in facts.items() if key != "type"}
                record = RunRecord(
                    started=self.started,
                    profile=self.profile,
                    asked=self.asked,
                    sides=self.sides,
                    fingerprint={**fingerprint, "machine": name},
                    machines={name: facts},
                    claims=claims,
                    result=self.result,
                )
                found.append(record)
        return found

    def document(self, stored: Mapping[str, Any]) -> Iterator[bytes]:
        """The record for a store, line by line.

        Args:
            stored: what the store is asked for, see `pytest_vperf.results.store.model.StoredRun.as_key`.
        """
        return self._document(self._encoded(), stored=stored)

    def _encoded(self) -> list[bytes]:
        return [to_json(each).encode() for each in self.claims]

    def _fillings_text(self) -> str:
        """The fillings as JSON, leaving out any that JSON cannot represent."""
        told = []
        for each in self.fillings:
            try:
                told.append(to_json(each))
            except (ValueError, TypeError, RecursionError) as error:
                self.tell(f"the filling {each.get('name')!r} cannot be recorded: {error}")
        return f"[{', '.join(told)}]"

    def _document(
        self, lines: list[bytes], *, unfinished: str = "", stored: Mapping[str, Any] | None = None
    ) -> Iterator[bytes]:
        """The content of the file, one claim per line, so that a reader needs memory for only one at a time."""
        head = self._head_values()
        first = {key: head[key] for key in ("format", "vperf", "run", "started")}
        rest = {key: head[key] for key in ("asked", "sides", "profile", "fingerprint", "machines")}
        own = {"stored": stored} if stored is not None else {}
        start = {**first, "unfinished": unfinished, **rest, **own, "claims": []}
        yield f"{to_json(start)[:-2]}\n".encode()
        for number, line in enumerate(lines, 1):
            yield b"%s%s\n" % (line, b"," if number < len(lines) else b"")
        fillings = "[]" if unfinished else self._fillings_text()
        yield f'], "fillings": {fillings}, "result": {to_json(self.result)}}}\n'.encode()


def _head_line(values: Mapping[str, Any]) -> str:
    return f"{journal.HEAD}{to_json(values)}}}"


def _identity(record: ClaimRecord) -> tuple[object, ...]:
    """What tells the claims of a run apart that are under way: of those that one call of a test makes under one name,
    the next begins when the one before is over."""
    return record["nodeid"], record["name"], record["attempt"], record["started_at"]


def _why(error: OSError) -> str:
    return error.strerror or str(error)
