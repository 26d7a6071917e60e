"""What a report tells of earlier runs: the history of each claim, and what differs from the run before."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, NamedTuple

from pytest_vperf.quantity import format_number
from pytest_vperf.reporting import words
from pytest_vperf.reporting.ended import Difference, Past, Since, Turn
from pytest_vperf.results.levels import levels
from pytest_vperf.results.store.choosing import Chosen
from pytest_vperf.results.store.model import StoredRun
from pytest_vperf.results.store.series import histories

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from pytest_vperf.results.record import ClaimRecord
    from pytest_vperf.results.store.series import History

#: The most runs of a history: more points than that nobody tells apart.
MOST_RUNS = 200
#: The most differences that a page begins with.
MOST_DIFFERENCES = 30


class Earlier(NamedTuple):
    """What earlier runs have.

    Attributes:
        past: by a claim's name.
        since: what differs from the run before; ``None`` if there is none on this machine.
    """

    past: Mapping[str, Past]
    since: Since | None


NOTHING = Earlier({}, None)


def this_run(
    mark: str, started: str, fingerprint: Mapping[str, str], claims: Iterable[ClaimRecord]
) -> StoredRun:
    """A run as if it were stored."""
    return StoredRun(mark, started, fingerprint=fingerprint, levels=tuple(levels(claims)))


def earlier(run: StoredRun, runs: Iterable[StoredRun]) -> Earlier:
    """What there is to tell.

    Args:
        run: the one that is reported.
        runs: those that are known, whatever their order; the same one may be among them.

    Raises:
        ImportError: what finds changes is not installed.
    """
    before = sorted(
        (
            each
            for each in runs
            if each.mark != run.mark and each.started < run.started and _is_plain(each)
        ),
        key=lambda each: each.started,
        reverse=True,
    )
    if not before or not run.levels or not _is_plain(run):
        return NOTHING
    found, _ = histories(Chosen("", (run, *before[: MOST_RUNS - 1])), "*")
    known = {each.claim for each in run.levels}
    own = [each for each in found if each.claim in known and len(each.runs) > 1]
    return Earlier({each.claim: _past(each) for each in own}, _since(run, own))


def _is_plain(run: StoredRun) -> bool:
    """Whether it has one figure of a claim: a gate with several heads has none that is the run's."""
    return len({each.side for each in run.levels} - {"base"}) <= 1


def _past(history: History) -> Past:
    return Past(
        unit=history.unit,
        runs=[
            (run.started, _name(run), value)
            for run, value in zip(history.runs, history.values, strict=True)
        ],
        changes=[Turn(first=each.first, word=history.word(each)) for each in history.changes],
    )


def _name(run: StoredRun) -> str:
    commit = f"{run.commit[:9]}{'+' if run.dirty else ''}" if run.commit else ""
    return " ".join(filter(None, (run.name, commit))) or run.mark


def _since(run: StoredRun, found: Sequence[History]) -> Since | None:
    """What differs from the newest of the runs before that has a figure of a claim of this one."""
    last = max(
        (each for history in found for each in history.runs if each.mark != run.mark),
        key=lambda each: each.started,
        default=None,
    )
    if last is None:
        return None
    differences = []
    for history in found:
        of = {each.mark: value for each, value in zip(history.runs, history.values, strict=True)}
        if last.mark in of and run.mark in of:
            then, now = of[last.mark], of[run.mark]
            differences.append((_size(then, now), _difference(history, then, now)))
    differences.sort(key=lambda each: -each[0])
    return Since(str(last), [each for _, each in differences[:MOST_DIFFERENCES]])


def _size(then: float, now: float) -> float:
    return abs(math.log(now / then)) if then > 0 and now > 0 else 0.0


def _difference(history: History, then: float, now: float) -> Difference:
    before, after = (f"{format_number(each)} {history.unit}".rstrip() for each in (then, now))
    change = f"{words.signed(100 * (now / then - 1))} %" if then > 0 else "-"
    return Difference(history.claim, before, after, change)
