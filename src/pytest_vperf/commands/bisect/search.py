"""What a bisection is about, the builds that it judges, and how one is judged: by a gate against the good one."""

from __future__ import annotations

import json
import math
import shutil
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from pytest_vperf.commands.builds import build
from pytest_vperf.commands.pytest_process import run_pytest
from pytest_vperf.reporting import gate
from pytest_vperf.results import reading
from pytest_vperf.results.record import of_sides

if TYPE_CHECKING:
    from collections.abc import Sequence

    from pytest_vperf.results.record import ClaimRecord

Answer = Literal["good", "bad", "skip"]


@dataclass(frozen=True)
class Judged:
    """How a build compares with the good one.

    Attributes:
        answer: whether it is as good, or worse; else ``skip``.
        change: by how much its figure differs, or why that is not known.
        ratio: of the figures, this build's / the good one's; ``None`` if it was not measured.
        pairs: how many were compared.
    """

    answer: Answer
    change: str
    ratio: float | None = None
    pairs: int = 0


@dataclass(frozen=True)
class Search:
    """One bisection; kept in a file, since ``git bisect run`` judges each commit in a process of its own.

    Attributes:
        owner: the process of the command, with which the search ends.
        folder: for the builds and this file; removed at the end.
        tree: a work tree of its own, in which commits are built.
        here: where the tests are: the folder that the command was called in.
        key: the setting of a side that the artefact is: ``runtime``, ``kernel``, ``env.NAME``.
        artefact: what a build makes, seen from the root of the work tree.
        build: the command, for a shell.
        claim: the claim's name.
        tolerance: how much worse than the good build counts as no worse.
        words: arguments for pytest.
    """

    owner: int
    folder: Path
    tree: Path
    here: Path
    key: str
    artefact: str
    build: str
    claim: str
    tolerance: float
    words: tuple[str, ...]

    @property
    def file(self) -> Path:
        """Where it is kept."""
        return self.folder / "search.json"

    @property
    def log(self) -> Path:
        """What builds and tests printed."""
        return self.folder / "log"

    @property
    def steps(self) -> Path:
        """The answers, a line each."""
        return self.folder / "steps.jsonl"

    def write(self) -> None:
        """Keep it for the steps."""
        self.file.write_text(
            json.dumps({**asdict(self), "words": self.words}, default=str), "utf-8"
        )

    @classmethod
    def read(cls, file: Path) -> Search:
        """The bisection that a step belongs to."""
        values: dict[str, Any] = json.loads(file.read_text("utf-8"))
        paths = {name: Path(values[name]) for name in ("folder", "tree", "here")}
        return cls(**{**values, **paths, "words": tuple(values["words"])})

    def built(self, name: str) -> Path:
        """Build the commit that the work tree has, and put its artefact aside, in a folder of this name.

        Raises:
            BuildFailed: the build failed, or did not make the artefact.
        """
        with self.log.open("ab") as log:
            made = build(self.tree, self.build, self.artefact, log, fresh=True)
        aside = self.folder / name / made.name
        shutil.rmtree(aside.parent, ignore_errors=True)
        aside.parent.mkdir()
        if made.is_dir():
            shutil.copytree(made, aside, symlinks=True)
        else:
            shutil.copy2(made, aside)
        return aside

    def judge(self, build: Path, *, good: Path) -> Judged:
        """Compare a build with the good one, by a run of the claim's tests in which both are sampled in turn."""
        record = self.folder / "run.json"
        record.unlink(missing_ok=True)
        options = [
            f"--claims-base={self.key}={good}",
            f"--claims-head={self.key}={build}",
            f"--claims-tolerance={self.tolerance}",
            f"--claims-json={record}",
            "--claims-advisory",
        ]
        with self.log.open("ab") as log:
            status, interrupted = run_pytest(
                [*options, *self.words], output=log.fileno(), at=self.here
            )
        if interrupted:
            raise KeyboardInterrupt
        return judged(self.claim, _claims(record), status)


def _claims(record: Path) -> list[Any]:
    try:
        found = reading.read(record, reading.check_format, lambda _, text: json.loads(text))
    except (reading.RecordProblem, reading.WrongShape):
        return []
    return list(found.claims or ())


def judged(claim: str, records: Sequence[ClaimRecord], status: int) -> Judged:
    """What the records of a gate say of a claim; several of its name have to agree, one that is worse decides.

    Args:
        claim: its name.
        records: of the run.
        status: its exit status, for the reason if there is no record.
    """
    named = [each for each in records if each["name"] == claim]
    compared = [each for each in named if of_sides(each)]
    if not compared:
        reason = (
            "it compares two things by itself" if named else f"pytest's exit status is {status}"
        )
        return Judged("skip", f"{claim} was not compared: {reason}")
    order = ("refuted", "inconclusive", "not comparable", "not measured", "holds")
    worst = min(compared, key=lambda each: order.index(each["verdict"]))
    answer: Answer = {"refuted": "bad", "holds": "good"}.get(worst["verdict"], "skip")  # type: ignore[assignment]
    measured = worst["estimate"] is not None and worst["n"] > 0
    return Judged(
        answer,
        gate.change(worst) if measured else f"{worst['verdict']}: {worst['reason']}",
        worst["estimate"] if measured else None,
        worst["n"],
    )


def half_of(ratio: float) -> float:
    """The tolerance that lies in the middle between no change and a ratio: +4.9 % of +10 %."""
    return math.exp(abs(math.log(ratio)) / 2) - 1
