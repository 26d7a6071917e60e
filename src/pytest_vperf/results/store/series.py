"""The runs of a claim in the order that they were taken in, the changes among them, and which commit each is of."""

from __future__ import annotations

from dataclasses import dataclass
from fnmatch import fnmatchcase
from functools import cache
from typing import TYPE_CHECKING, Literal

from pytest_vperf.machine.git import GitProblem, git
from pytest_vperf.quantity import QuantityError, conversion_factor, is_speed
from pytest_vperf.results.identity import changes as fingerprint_changes
from pytest_vperf.results.identity import identity
from pytest_vperf.results.store.model import COMMIT
from pytest_vperf.stats.changes import Series, find_changes, least_runs

if TYPE_CHECKING:
    from pytest_vperf.results.levels import Level
    from pytest_vperf.results.store.choosing import Chosen
    from pytest_vperf.results.store.model import StoredRun
    from pytest_vperf.stats.changes import Change


@dataclass(frozen=True)
class History:
    """The runs of one claim, on the machine of the newest.

    Attributes:
        claim: its name.
        unit: of the figures, that of the newest run; empty for a ratio.
        better: what is better of it; empty if nobody said.
        runs: the oldest first.
        values: the figure of each.
        series: what they show; ``None`` if that cannot be judged.
        why: what keeps it from being judged; empty if nothing does.
        odd: how many further runs were in a unit of another kind.
    """

    claim: str
    unit: str
    better: Literal["lower", "higher", ""]
    runs: tuple[StoredRun, ...]
    values: tuple[float, ...]
    series: Series | None
    why: str = ""
    odd: int = 0

    @property
    def can_show(self) -> bool:
        """Whether so many runs could show a step, or did show a slip."""
        return bool(self.changes) or (self.series is not None and len(self.runs) >= least_runs())

    @property
    def changes(self) -> tuple[Change, ...]:
        """The changes, the oldest first."""
        return self.series.changes if self.series else ()

    def word(self, change: Change) -> str:
        """``slower``, ``faster``; of what is no speed ``worse``, ``better``; ``changed`` where nobody said which."""
        if not self.better:
            return "changed"
        worse = (change.ratio > 1) == (self.better == "lower")
        speed = bool(self.unit) and is_speed(self.unit)
        return ("slower" if worse else "faster") if speed else "worse" if worse else "better"


@dataclass(frozen=True)
class Blame:
    """What a change came with.

    Attributes:
        before: the last run at the old level.
        after: of a step the first run after it, of a slip the first at the new level.
        commits: those that came between them, the newest first, as Git has them; empty if it is not known.
        same: whether both runs are of one commit, without changed files: then it is none of the code's making.
        machine: what else differs between the two records: its kernel, for instance; key, before and after.
    """

    before: StoredRun
    after: StoredRun
    commits: tuple[str, ...]
    same: bool
    machine: tuple[tuple[str, str, str], ...]


@cache
def _commits_between(old: str, new: str) -> tuple[str, ...]:
    """The commits that ``new`` has and ``old`` does not, the newest first, a line each; empty if Git does not say."""
    if not (COMMIT.fullmatch(old) and COMMIT.fullmatch(new)):
        return ()
    try:
        found = git("log", "--format=%h %s", "--max-count=1000", f"{old}..{new}", "--")
    except GitProblem:
        return ()
    return tuple(found.splitlines())


def blame(history: History, change: Change) -> Blame:
    """Which commits lie between the levels, and what else changed with them."""
    before, after = history.runs[change.first - 1], history.runs[change.last]
    same = bool(before.commit) and before.commit == after.commit
    return Blame(
        before=before,
        after=after,
        commits=() if same else _commits_between(before.commit, after.commit),
        same=same and not before.dirty and not after.dirty,
        machine=tuple(fingerprint_changes(before.fingerprint, after.fingerprint)),
    )


def histories(chosen: Chosen, pattern: str) -> tuple[list[History], int]:
    """The history of each claim, and how many runs were left out, since they were on other machines.

    Args:
        chosen: the runs, the newest first.
        pattern: which claims.

    Raises:
        StoreProblem: a run has several heads, and none was named.
        ImportError: a library is missing.
    """
    machine = identity(chosen.runs[0].fingerprint)
    runs = [run for run in reversed(chosen.runs) if identity(run.fingerprint) == machine]
    found = []
    for claim in chosen.claims:
        if claim == pattern or fnmatchcase(claim, pattern):
            points = [(run, level) for run in runs if (level := chosen.level(run, claim))]
            if points:
                found.append(_history(claim, points))
    return found, len(chosen.runs) - len(runs)


def _history(claim: str, points: list[tuple[StoredRun, Level]]) -> History:
    newest = points[-1][1]
    runs, values = [], []
    for run, level in points:
        try:
            values.append(level.value * conversion_factor(level.unit, newest.unit))
        except QuantityError:
            continue  # of a time when it was about something else
        runs.append(run)
    series = find_changes(values) if min(values) > 0 else None
    return History(
        claim=claim,
        unit=newest.unit,
        better=newest.better,
        runs=tuple(runs),
        values=tuple(values),
        series=series,
        why="" if series else "a figure is 0 or less: there is no ratio",
        odd=len(points) - len(values),
    )
