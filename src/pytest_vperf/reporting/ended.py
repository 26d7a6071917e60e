"""A run that has ended, and the formats of files that are made of it: pages, and what other programs read."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, NamedTuple, TypedDict

from pytest_vperf.results.record import of_sides

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from pytest_vperf.results.record import ClaimRecord, FillingRecord


class Place(NamedTuple):
    """Where a test is.

    Attributes:
        file: seen from the root of the repository, or from pytest's root folder, with ``/``.
        line: counted from 1.
    """

    file: str
    line: int


class Turn(TypedDict):
    """Where the level of a claim's figure changes: from which run on, counted from 0, and the word for it."""

    first: int
    word: str


class Past(TypedDict):
    """The runs of a claim that were kept, the oldest first.

    Keys: the ``unit`` of the figures; ``runs``, of each when it started, what it is called and its figure;
    ``changes`` of the level among them.
    """

    unit: str
    runs: list[tuple[str, str, float]]
    changes: list[Turn]


class Difference(NamedTuple):
    """A claim's figure in two runs, in words, and by how much they differ."""

    claim: str
    before: str
    after: str
    difference: str


class Since(NamedTuple):
    """What differs between a run and an earlier one.

    Attributes:
        run: what the earlier one is called.
        differences: the greatest first.
    """

    run: str
    differences: Sequence[Difference]


@dataclass(frozen=True)
class EndedRun:
    """A run that has ended.

    Attributes:
        claims: in the order they ended.
        answer: of a run that compares, in one line; else the counts of verdicts.
        word: how it ended, such as ``ok`` or ``refuted``.
        status: its exit status.
        failing: the verdicts that fail a claim in this run.
        started: ISO time, UTC.
        mark: its identifier.
        fingerprint: of the machine.
        sides: of a gate, what each is; see `pytest_vperf.run.sides.recorded`.
        places: of tests, by node ID.
        asked: what was asked for, see `pytest_vperf.run.asked`.
        profile: what judged it, see the record's head.
        fillings: of hosts.
        past: by a claim's name, the stored runs that have a figure of it.
        since: what differs from the last of them; ``None`` where there is none.
    """

    claims: Sequence[ClaimRecord]
    answer: str
    word: str
    status: int
    failing: frozenset[str] = frozenset()
    started: str = ""
    mark: str = ""
    fingerprint: Mapping[str, str] = field(default_factory=dict)
    sides: Mapping[str, Any] = field(default_factory=dict)
    places: Mapping[str, Place] = field(default_factory=dict)
    asked: Mapping[str, Any] = field(default_factory=dict)
    profile: Mapping[str, Any] | None = None
    fillings: Sequence[FillingRecord] = ()
    past: Mapping[str, Past] = field(default_factory=dict)
    since: Since | None = None

    def place(self, record: ClaimRecord) -> Place:
        """Where the test of a claim is; the first line of its file if that is all that is known."""
        return self.places.get(record["nodeid"]) or Place(record["nodeid"].partition("::")[0], 1)


@dataclass(frozen=True)
class ExportFormat:
    """A format of files that a run writes at its end, for ``--claims-export=NAME=FILE``.

    Attributes:
        name: as on the command line.
        make: makes a file's content.
        unfinished: its content until the run has ended; of a run that was killed, it stays so.
    """

    name: str
    make: Callable[[EndedRun], str]
    unfinished: str = ""


def compares(record: ClaimRecord) -> bool:
    """Whether a record is about a change: two sides, or this build and stored runs."""
    return of_sides(record) or record["baseline"] is not None


def is_better(record: ClaimRecord) -> bool:
    """Whether a comparison shows a change for the better that is larger than what is tolerated."""
    interval, better = record["interval"], record["better"]
    tolerance = record["plan"].get("tolerance", 0.0)
    if not compares(record) or interval is None or not better or tolerance <= 0:
        return False
    low, high = interval
    if better == "lower":
        return high is not None and high * (1 + tolerance) < 1
    return low is not None and low > 1 + tolerance
