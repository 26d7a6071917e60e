"""The one figure of a claim in a run, by which runs are compared with each other."""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal, NamedTuple

from pytest_vperf.results.record import of_sides

if TYPE_CHECKING:
    from collections.abc import Iterable

    from pytest_vperf.results.record import ClaimRecord


#: Characters of a claim's name, a side's and a unit, for which a store has room.
MOST_NAME, MOST_SIDE, MOST_UNIT = 200, 100, 40


class Level(NamedTuple):
    """What a run measured of one claim.

    Attributes:
        claim: its name.
        side: in a gate, whose it is; empty in other runs.
        value: the claim's statistic in ``unit``; of a comparison the ratio, in a gate the side's median.
        unit: empty for a ratio.
        better: what is better of it; empty if nobody said.
        n: the number of samples, or pairs, behind it.
    """

    claim: str
    side: str
    value: float
    unit: str
    better: Literal["lower", "higher", ""]
    n: int


def levels(records: Iterable[ClaimRecord]) -> list[Level]:
    """The figures of a run's claims, sorted by name.

    Of a test that ran again the last figure counts; and of a claim that a gate also held against its limit, that of
    the comparison, which both sides have. What a baseline was compared with is no figure of this run.
    """
    found: dict[tuple[str, str], Level] = {}
    for record in sorted(records, key=of_sides):
        if record["baseline"] is not None:
            continue
        for each in _of(record):
            found[each.claim, each.side] = each
    return sorted(found.values())


def _of(record: ClaimRecord) -> Iterable[Level]:
    name, sides, better = record["name"], record["sides"], record["better"]
    if of_sides(record):
        for arm, own in record["arms"].items():
            yield Level(name, sides[arm], own["estimate"], own["unit"], better, own["n"])
    elif record["estimate"] is not None and record["n"]:
        side = next(iter(sides.values()), "")
        yield Level(name, side, record["estimate"], record["unit"], better, record["n"])
