"""Which runs a word means: a file, ``last``, a name, a commit, each with ``@SIDE`` where they are of a gate."""

from __future__ import annotations

import difflib
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from pydantic import Field

from pytest_vperf.quantity import QuantityError, usual_direction
from pytest_vperf.results import reading
from pytest_vperf.results.levels import levels
from pytest_vperf.results.reading import Moment, Part
from pytest_vperf.results.store.files import FileStore
from pytest_vperf.results.store.model import COMMIT, LAST, NAME, HeadPart, StoredRun, StoreProblem

if TYPE_CHECKING:
    from collections.abc import Sequence

    from pytest_vperf.results.levels import Level
    from pytest_vperf.results.store.model import Store


@dataclass(frozen=True)
class Chosen:
    """The runs that a word means.

    Attributes:
        word: as it was given.
        runs: the newest first; at least one.
        side: of a gate, whose figures count; empty: the head's, or those of a run that is no gate.
    """

    word: str
    runs: tuple[StoredRun, ...]
    side: str = ""

    def level(self, run: StoredRun, claim: str) -> Level | None:
        """The figure of a claim in one of the runs; ``None`` if it has none.

        Raises:
            StoreProblem: the run compared several heads, and none of them was named.
        """
        own = {each.side: each for each in run.levels if each.claim == claim}
        if self.side:
            return own.get(self.side)
        if len(heads := own.keys() - {"base"}) > 1:
            raise StoreProblem(
                f"{self.word}: run {run} has the sides {', '.join(sorted(own))}: name one, as in "
                f"{self.word}@{min(heads)}"
            )
        return own[heads.pop()] if heads else None

    def on(self, machine: str) -> Chosen:
        """Those of a machine of a fleet.

        Raises:
            StoreProblem: there is none.
        """
        found = tuple(run for run in self.runs if run.machine == machine)
        if found:
            return replace(self, runs=found)
        known = sorted({run.machine for run in self.runs if run.machine})
        of = f"there are those of {', '.join(known)}" if known else "none is of a fleet"
        raise StoreProblem(f"{self.word} has no run of machine {machine!r}; {of}")

    @property
    def claims(self) -> list[str]:
        """The names of the claims that a run of these has a figure of."""
        return sorted({each.claim for run in self.runs for each in run.levels})


def choose(store: Store, word: str, claim: str = "") -> Chosen:
    """The runs that a word means.

    Args:
        store: where names, commits and ``last`` are looked up.
        word: a file of ``--claims-json``, a folder of stored runs, ``last``, ``last~2``, a name, or a commit.
        claim: where one is named, the other claims are not read.

    Raises:
        StoreProblem: there is no such run; the message suggests a name.
    """
    name, at, side = word.rpartition("@")
    if not at or Path(word).exists():
        name, side = word, ""
    return Chosen(word, tuple(_runs(store, name, claim)), side)


def choose_all(store: Store, word: str, *, claim: str, most: int | None) -> Chosen:
    """The runs of a name, or all that there are.

    Args:
        store: where they are.
        word: a name, ``NAME@SIDE``, ``@SIDE``, or nothing.
        claim: where it is a name without ``*``, ``?`` and ``[``, the other claims are not read.
        most: how many at most, of the newest.

    Raises:
        StoreProblem: there is none.
    """
    name, _, side = word.partition("@")
    alone = "" if set("*?[") & set(claim) else claim
    found = store.runs(name=name, claim=alone, most=most)
    if not found:
        if name and not store.runs(name=name, most=1):
            raise StoreProblem(_no_such(store, name))
        if not store.runs(most=1):
            raise StoreProblem(f"{store.place} has no runs: keep one with --claims-save")
        raise StoreProblem(
            f"none of the runs has a figure of a claim {claim!r}{_near(store, claim)}"
        )
    return Chosen(word or "all runs", tuple(found), side)


def _near(store: Store, claim: str) -> str:
    known = {each.claim for run in store.runs(most=1) for each in run.levels}
    near = difflib.get_close_matches(claim, known, n=1)
    return f"; did you mean {near[0]!r}?" if near else ""


def _runs(store: Store, word: str, claim: str) -> Sequence[StoredRun]:
    path = Path(word)
    # What was kept by a name comes before a file that happens to have it: ./NAME is the file.
    is_name = bool(NAME.fullmatch(word)) and bool(store.runs(name=word, most=1))
    if path.is_file() and not is_name:
        return of_file(path)
    if path.is_dir() and not is_name:
        found = FileStore(path).runs(claim=claim)
        if not found:
            raise StoreProblem(f"{word} is a folder without stored runs")
        return found
    if (last := LAST.fullmatch(word)) is not None:
        back = int(last[1] or 0)
        newest = store.runs(claim=claim, most=back + 1)
        if len(newest) <= back:
            has = f"{len(newest)} run{'' if len(newest) == 1 else 's'}"
            raise StoreProblem(f"{word}: {store.place} has {has}: keep one with --claims-save")
        return newest[back:]
    if NAME.fullmatch(word) and (found := store.runs(name=word, claim=claim)):
        return found
    if COMMIT.fullmatch(word) and (found := store.runs(commit=word, claim=claim)):
        if len(several := sorted({run.commit for run in found})) > 1:
            raise StoreProblem(
                f"{word} is the beginning of {len(several)} commits: {', '.join(several)}"
            )
        return found
    raise StoreProblem(_no_such(store, word, ", and there is no such file"))


def _no_such(store: Store, word: str, also: str = "") -> str:
    known = sorted({run.name for run in store.runs() if run.name})
    near = difflib.get_close_matches(word, known, n=1)
    hint = f"; did you mean {near[0]!r}?" if near else ""
    if not hint and known:
        hint = f"; there are {', '.join(known[:10])}{', …' if len(known) > 10 else ''}"
    return f"{store.place} has no run {word!r}{also}{hint}"


class _Arm(Part):
    estimate: float
    unit: str
    n: int


class _Claim(Part):
    """What the figure of a claim is made from; a record of an earlier version does not say what is better."""

    name: str = Field(min_length=1, max_length=200)
    estimate: float | None
    unit: str
    n: int
    sides: dict[str, str] = Field(default_factory=dict)
    arms: dict[str, _Arm] = Field(default_factory=dict)
    better: Literal["lower", "higher", "", None] = None
    baseline: dict[str, Any] | None = None
    machine: dict[str, str] = Field(default_factory=dict)


class _Head(Part):
    run: str = ""
    started: Moment
    fingerprint: dict[str, str] | None = None
    machines: dict[str, dict[str, str]] = Field(default_factory=dict)


def _usual(unit: str) -> Literal["lower", "higher", ""]:
    try:
        return usual_direction(unit)
    except QuantityError:
        return ""


def of_file(path: Path) -> list[StoredRun]:
    """The run in a file of ``--claims-json``, or in one of a store; over a fleet, that of each machine.

    Raises:
        StoreProblem: it cannot be read.
    """
    try:
        found = reading.read(
            path,
            reading.check_format,
            lambda n, text: reading.checked(_Claim, text, f"claims.{n}."),
        )
        if "stored" in found.head:
            return [StoredRun.of(reading.checked(HeadPart, found.head))]
        head = reading.checked(_Head, found.head)
    except (reading.RecordProblem, reading.WrongShape) as error:
        raise StoreProblem(f"{path}: {error}") from None
    records: list[Any] = []
    for each in found.claims or ():
        unit = next(iter(each.arms.values())).unit if each.arms and each.sides else each.unit
        better = _usual(unit) if each.better is None else each.better
        records.append({**each.model_dump(), "better": better})
    run = StoredRun(head.run, head.started, path.name, fingerprint=head.fingerprint or {})
    runs = []
    for machine in head.machines or ("",):
        own = [each for each in records if each["machine"].get("name", "") == machine]
        facts = {**head.machines[machine], "machine": machine} if machine else run.fingerprint
        runs.append(replace(run, fingerprint=facts, levels=tuple(levels(own))))
    return [each for each in runs if each.levels] or runs[:1]
