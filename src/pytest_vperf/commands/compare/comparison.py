"""Two sets of runs, claim by claim: what each measured, by how much it changed, and what that shows."""

from __future__ import annotations

from dataclasses import dataclass
from fnmatch import fnmatchcase
from statistics import median
from typing import TYPE_CHECKING, Literal

from pytest_vperf.quantity import QuantityError, conversion_factor
from pytest_vperf.results.identity import changes, differences, identity
from pytest_vperf.stats.baseline import compare_runs

if TYPE_CHECKING:
    from collections.abc import Sequence

    from pytest_vperf.results.levels import Level
    from pytest_vperf.results.store.choosing import Chosen
    from pytest_vperf.results.store.model import StoredRun
    from pytest_vperf.stats.baseline import RunsCompared


class OtherHardware(Exception):
    """The runs were on different machines; the message has what differs."""


@dataclass(frozen=True)
class Row:
    """One claim in both.

    Attributes:
        claim: its name.
        unit: of both figures; empty for a ratio.
        better: what is better of it; empty: each change is for the worse.
        old: the figures of the old runs, the newest first.
        new: of the new ones.
        compared: what they show; ``None`` if they cannot be compared.
        why: why not; empty if they can.
    """

    claim: str
    unit: str
    better: Literal["lower", "higher", ""]
    old: tuple[float, ...]
    new: tuple[float, ...]
    compared: RunsCompared | None
    why: str = ""

    @property
    def verdict(self) -> str:
        """As of a claim: ``holds``, ``refuted``, ``inconclusive``, ``not comparable``."""
        return self.compared.decision if self.compared else "not comparable"

    @property
    def before(self) -> float:
        """The median of the old runs."""
        return median(self.old)

    @property
    def after(self) -> float:
        """The median of the new runs."""
        return median(self.new)


@dataclass(frozen=True)
class Comparison:
    """Two sets of runs.

    Attributes:
        old: those that are compared, the newest first.
        new: likewise.
        rows: by name.
        only_old: claims that the new runs have no figure of.
        only_new: likewise.
        elsewhere: how many runs were left out, since they were on other machines.
        changed: what differs between the records of the machine, newest to newest: its kernel, for instance.
    """

    old: tuple[StoredRun, ...]
    new: tuple[StoredRun, ...]
    rows: tuple[Row, ...]
    only_old: tuple[str, ...] = ()
    only_new: tuple[str, ...] = ()
    elsewhere: int = 0
    changed: tuple[tuple[str, str, str], ...] = ()


def compare(old: Chosen, new: Chosen, *, tolerance: float, pattern: str = "*") -> Comparison:
    """Compare the claims that both have, on the machine of the newest new run.

    Args:
        old: the runs to compare with.
        new: those in question.
        tolerance: how much worse counts as no worse.
        pattern: which claims.

    Raises:
        OtherHardware: none of the old runs was on that machine.
        StoreProblem: a run has several heads, and none was named.
    """
    machine = identity(new.runs[0].fingerprint)
    ours = [run for run in new.runs if identity(run.fingerprint) == machine]
    theirs = [run for run in old.runs if identity(run.fingerprint) == machine]
    if not theirs:
        differ = differences(old.runs[0].fingerprint, new.runs[0].fingerprint)
        told = "; ".join(f"{key}: {one or '-'} / {other or '-'}" for key, one, other in differ)
        raise OtherHardware(f"{old.word} and {new.word} are of different machines: {told}")
    names = {"old": set(old.claims), "new": set(new.claims)}
    both = sorted(name for name in names["old"] & names["new"] if fnmatchcase(name, pattern))
    rows = []
    for name in both:
        before = [level for run in theirs if (level := old.level(run, name))]
        after = [level for run in ours if (level := new.level(run, name))]
        if before and after:
            rows.append(_row(before, after, tolerance))
    found = {row.claim for row in rows}
    only_old, only_new = (
        tuple(sorted(each for each in of - found if fnmatchcase(each, pattern)))
        for of in names.values()
    )
    return Comparison(
        old=tuple(theirs),
        new=tuple(ours),
        rows=tuple(rows),
        only_old=only_old,
        only_new=only_new,
        elsewhere=len(old.runs) + len(new.runs) - len(theirs) - len(ours),
        changed=tuple(changes(theirs[0].fingerprint, ours[0].fingerprint)),
    )


def _row(before: Sequence[Level], after: Sequence[Level], tolerance: float) -> Row:
    newest = after[0]
    unit, better = newest.unit, newest.better
    why = ""
    try:
        old, new = (
            tuple(each.value * conversion_factor(each.unit, unit) for each in levels)
            for levels in (before, after)
        )
    except QuantityError:
        other = next(each.unit for each in (*before, *after) if each.unit != unit)
        why = f"one is in {other or 'no unit, as a ratio'}, the other in {unit or 'no unit, as a ratio'}"
        old, new = (tuple(each.value for each in levels) for levels in (before, after))
    if not why and min(*old, *new) <= 0:
        why = "a figure is 0 or less: there is no ratio"
    compared = None if why else compare_runs(old, new, tolerance, better)
    return Row(newest.claim, unit, better, old, new, compared, why)
