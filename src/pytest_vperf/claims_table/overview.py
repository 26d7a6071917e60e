"""Row by row and profile by profile: what was measured, on what and with which verdicts, and why the rest was not."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from typing import TYPE_CHECKING

from pytest_vperf.claims_table.machines import Machines

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from pytest_vperf.claims_table.lines import Line
    from pytest_vperf.claims_table.rows import Row

_ORDER = ("holds", "refuted", "inconclusive", "not comparable")


@dataclass(frozen=True)
class Part:
    """The claims of one row in one profile.

    Attributes:
        row: the row.
        profile: the profile's name.
        claims: how many claims, one with ``*`` counting once where no record has one that it stands for.
        measured: how many of them were measured.
        on: on what, with the verdicts there: ``domu pv (lab xen), emulated: 2 holds, 1 refuted``.
        missing: why others were not: ``no test names it: 12``.
    """

    row: Row
    profile: str
    claims: int
    measured: int
    on: tuple[str, ...]
    missing: tuple[str, ...]


def parts(rows: Sequence[Row], lines: Iterable[Line]) -> list[Part]:
    """The parts that have claims, in the order of the rows and then of the lines."""
    every = list(lines)
    machines = Machines(every)
    profiles = list(dict.fromkeys(line.profile for line in every))
    found = []
    for row in rows:
        for profile in profiles:
            own = [
                line
                for line in every
                if line.profile == profile and row.has(line.entry or line.name)
            ]
            if own:
                found.append(_part(row, profile, own, machines))
    return found


def _part(row: Row, profile: str, lines: Sequence[Line], machines: Machines) -> Part:
    verdicts: dict[str, Counter[str]] = {}
    missing: Counter[str] = Counter()
    measured = set()
    for line in lines:
        if line.last is not None and line.last.measured.was_measured:
            record = line.last.measured
            on = machines.on(record) or "-"
            verdicts.setdefault(on, Counter())[record.claim.verdict] += 1
            measured.add(line.name)
    for line in {line.name: line for line in lines if line.name not in measured}.values():
        if line.last is not None:
            missing[line.last.measured.reason] += 1
        else:
            missing[_unknown(line)] += 1
    return Part(
        row,
        profile,
        claims=len({line.name for line in lines}),
        measured=len(measured),
        on=tuple(f"{on}: {_counts(counter)}" for on, counter in verdicts.items()),
        missing=tuple(f"{reason}: {number}" for reason, number in missing.most_common()),
    )


def _unknown(line: Line) -> str:
    """Why no record has a claim."""
    if not line.tests:
        return "no test names it"
    return "no record of what its * stands for" if "*" in line.name else "no record has it"


def _counts(counter: Counter[str]) -> str:
    return ", ".join(f"{counter[verdict]} {verdict}" for verdict in _ORDER if counter[verdict])
