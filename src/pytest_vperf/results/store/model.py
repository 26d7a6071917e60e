"""What a store keeps of a run, and what it can be asked.

A run is kept as its record (`docs/results.md`), whole, with one key more: ``stored``, which has its name, the commit
that it was of, and a figure of each claim. Which kind of store has it makes no difference to what can be asked.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Annotated, Any, Literal, Protocol

from pydantic import Field

from pytest_vperf.results.levels import MOST_NAME, MOST_SIDE, MOST_UNIT, Level
from pytest_vperf.results.reading import Moment, Part

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

#: What a run may be called: it stands in file names, in shells, and beside commits.
NAME = re.compile(r"[A-Za-z][A-Za-z0-9_.+-]{0,99}")
#: The most recent run; ``last~2`` is the one before the one before.
LAST = re.compile(r"last(?:~(\d{1,6}))?")
#: A commit, in full or its first characters.
COMMIT = re.compile(r"[0-9a-f]{7,64}")
#: The ending of a file, and the key of a row: as a journal's.
MARK = re.compile(r"[0-9a-f]{12}")
#: Characters of a branch's name; of a longer one the rest is left out.
MOST_BRANCH = 200


class StoreProblem(Exception):
    """A store cannot be used, or does not have what was asked for; the message says what to do."""


class CommitPart(Part):
    """The commit that a run was of; ``id`` is empty outside of a repository."""

    id: Annotated[str, Field(max_length=64)] = ""
    dirty: bool = False
    branch: Annotated[str, Field(max_length=MOST_BRANCH)] = ""


class LevelPart(Part):
    """A `Level`, as it is stored."""

    claim: Annotated[str, Field(min_length=1, max_length=MOST_NAME)]
    side: Annotated[str, Field(max_length=MOST_SIDE)]
    value: float
    unit: Annotated[str, Field(max_length=MOST_UNIT)]
    better: Literal["lower", "higher", ""]
    n: Annotated[int, Field(ge=0)]


class StoredPart(Part):
    """What a stored run's record has in ``stored``."""

    name: Annotated[str, Field(max_length=100)] = ""
    commit: CommitPart = CommitPart()
    levels: list[LevelPart] = Field(default_factory=list)


class HeadPart(Part):
    """The head of a stored run's record."""

    run: Annotated[str, Field(pattern=MARK.pattern)]
    started: Moment
    fingerprint: dict[str, str] | None = None
    stored: StoredPart


@dataclass(frozen=True)
class StoredRun:
    """A stored run, without its samples.

    Attributes:
        mark: its identifier, 12 hexadecimal digits.
        started: ISO time, UTC.
        name: what ``--claims-save=NAME`` called it; empty without a name.
        commit: in full; empty outside of a repository.
        dirty: whether files of the repository had changed since.
        branch: empty if it is not known.
        fingerprint: of the machine.
        levels: of its claims.
    """

    mark: str
    started: str
    name: str = ""
    commit: str = ""
    dirty: bool = False
    branch: str = ""
    fingerprint: Mapping[str, str] = field(default_factory=dict)
    levels: tuple[Level, ...] = ()

    @classmethod
    def of(cls, head: HeadPart) -> StoredRun:
        """The run that a record's head is about."""
        stored, commit = head.stored, head.stored.commit
        return cls(
            mark=head.run,
            started=head.started,
            name=stored.name,
            commit=commit.id,
            dirty=commit.dirty,
            branch=commit.branch,
            fingerprint=head.fingerprint or {},
            levels=tuple(Level(**each.model_dump()) for each in stored.levels),
        )

    def as_head(self) -> dict[str, Any]:
        """What `HeadPart` reads."""
        return {
            "run": self.mark,
            "started": self.started,
            "fingerprint": dict(self.fingerprint),
            "stored": self.as_key(),
        }

    def as_key(self) -> dict[str, Any]:
        """What the record has in ``stored``."""
        return {
            "name": self.name,
            "commit": {"id": self.commit, "dirty": self.dirty, "branch": self.branch},
            "levels": [each._asdict() for each in self.levels],
        }

    def __str__(self) -> str:
        """``main 3f2a91c07b1e+ on h1, 2026-11-26 09:12``: the name, the commit with + for changed files, of a fleet
        the machine, and when.
        """
        commit = f"{self.commit[:12]}{'+' if self.dirty else ''}" if self.commit else ""
        when = self.started[:16].replace("T", " ")
        on = f"on {self.machine}" if self.machine else ""
        return ", ".join(filter(None, (" ".join(filter(None, (self.name, commit, on))), when)))

    @property
    def machine(self) -> str:
        """The name of its machine in a fleet; empty if it was none."""
        return self.fingerprint.get("machine", "")


class Store(Protocol):
    """A place for runs. Several processes may write at once; a run is there whole, or not at all."""

    @property
    def place(self) -> str:
        """Where it is, for messages, without a password."""
        ...

    @property
    def damaged(self) -> list[str]:
        """What the latest `runs` left out since it is none, and why, a line each."""
        ...

    def check(self) -> None:
        """Make sure that runs can be saved, before anything is measured.

        Raises:
            StoreProblem: they cannot.
        """
        ...

    def save(self, run: StoredRun, document: Iterable[bytes]) -> None:
        """Keep a run.

        Args:
            run: what is asked for later.
            document: its record, as `pytest_vperf.results.run.RunRecord.document` gives it: lines.

        Raises:
            StoreProblem: it cannot be written.
        """
        ...

    def runs(
        self, *, name: str = "", commit: str = "", claim: str = "", most: int | None = None
    ) -> list[StoredRun]:
        """The runs with a name, of a commit (its first characters), with a figure of a claim; the newest first.

        Args:
            name: empty: any, or none.
            commit: likewise.
            claim: where it is named, only its figures are in ``levels``, and runs without one are left out.
            most: how many at most.

        Raises:
            StoreProblem: it cannot be read.
        """
        ...

    def document(self, mark: str) -> Iterator[bytes]:
        """The record of a run, as it was saved.

        Raises:
            StoreProblem: there is no such run.
        """
        ...
