"""A run that has ended, and the formats of files that are made of it: pages, and what other programs read."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, NamedTuple

from pytest_vperf.results.record import of_sides

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from pytest_vperf.results.record import ClaimRecord


class Place(NamedTuple):
    """Where a test is.

    Attributes:
        file: seen from the root of the repository, or from pytest's root folder, with ``/``.
        line: counted from 1.
    """

    file: str
    line: int


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
