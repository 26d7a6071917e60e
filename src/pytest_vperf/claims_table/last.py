"""The last verdict of a claim, out of many runs."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import groupby
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable

    from pytest_vperf.claims_table.measured import Measured


@dataclass(frozen=True)
class Last:
    """The last verdict of one claim on one machine, in one place there.

    Attributes:
        measured: the record.
        later: the newest of the runs after it that could not measure the claim there; ``None`` where none tried.
    """

    measured: Measured
    later: Measured | None = None

    @property
    def note(self) -> str:
        """Why there is no newer one, where a later run tried; else empty."""
        if self.later is None:
            return ""
        return f"not measured on {self.later.when.date()}: {self.later.reason}"


def last_verdicts(records: Iterable[Measured], profile: str) -> list[Last]:
    """The last verdicts of one claim, held against one profile: one for each machine and place, the newest first.

    A machine and an emulated one in it are two places: a verdict in one says nothing about the other. In one place a
    verdict by this profile counts before one by none, and anything measured before a run that could not; within that
    the latest counts. A later run that could not measure adds its reason.
    """
    by_machine = sorted(records, key=lambda each: each.machine.identity)
    found: list[Last] = []
    for _, group in groupby(by_machine, key=lambda each: each.machine.identity):
        found += _of_machine(list(group), profile)
    return sorted(found, key=lambda each: each.measured.when, reverse=True)


def _of_machine(records: list[Measured], profile: str) -> list[Last]:
    ran = [each for each in records if each.was_measured]
    not_measured = [each for each in records if not each.was_measured]
    if not ran:
        return [Last(max(not_measured, key=lambda each: each.when))]
    last = []
    for places in dict.fromkeys(each.places for each in ran):
        best = max(
            (each for each in ran if each.places == places),
            key=lambda each: (each.profile == profile, each.when),
        )
        # One that could not start does not always know where it would have been.
        later = [
            each for each in not_measured if each.when > best.when and each.places in (places, ())
        ]
        last.append(Last(best, max(later, key=lambda each: each.when, default=None)))
    return last
