"""Records of earlier runs, from files that may be damaged or not be records at all.

The table reads, and ``--keep`` writes, the parts of a record named here, without samples and noise. Other keys are
ignored: a record has many more.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Annotated, Any, Literal

from pydantic import AfterValidator, Field, ValidationInfo, field_validator

from pytest_vperf.results import reading
from pytest_vperf.results.reading import Moment, Part, checked

if TYPE_CHECKING:
    from collections.abc import Iterable
    from pathlib import Path


#: The details of a target that say where it was, and that distinguish two machines of one kind; and what it ran on.
_WHERE = ("lab", "emulated", "on", "guest_kernel")
VERSIONS = ("runtime_version", "engine_version", "qemu", "libvirt")
Verdict = Literal["holds", "refuted", "inconclusive", "not comparable", "not measured"]


#: The most targets of one claim; the greatest published number is 1,023.
MOST_TARGETS = 2000
#: Longer texts are cut: a table shows less, and a file may have very many.
LONGEST = 4000
Words = Annotated[str, AfterValidator(lambda text: text[:LONGEST])]


class TargetPart(Part):
    """A target, with those of its details that say where it was, and with which versions."""

    kind: Words
    name: Words
    details: dict[str, Words]

    @field_validator("details")
    @classmethod
    def _kept(cls, details: dict[str, str]) -> dict[str, str]:
        return {key: details[key] for key in (*_WHERE, *VERSIONS) if key in details}


class HardwarePart(Part):
    """The profile that judged the claim, and whether the machine fits it."""

    profile: Words
    matches: bool


class ClaimPart(Part):
    """A claim; without an estimate, its first sample is kept in place of one."""

    name: Annotated[str, Field(min_length=1, max_length=200)]
    verdict: Verdict
    reason: Words
    criterion: Words
    statistic: Words
    unit: Annotated[str, Field(max_length=40)] = ""
    estimate: float | None = None
    interval: tuple[float | None, float | None] | None = None
    n: Annotated[int, Field(ge=0, le=10**9)]
    samples: list[float] = Field(default_factory=list)
    target: Words
    targets: Annotated[list[TargetPart], Field(max_length=MOST_TARGETS)]
    hardware: HardwarePart
    nodeid: Words
    started_at: Moment
    sides: dict[str, str] = Field(default_factory=dict)
    baseline: dict[str, Any] | None = None
    machine: dict[str, Words] = Field(default_factory=dict)

    @field_validator("samples")
    @classmethod
    def _first(cls, samples: list[float], info: ValidationInfo) -> list[float]:
        return samples[:1] if info.data.get("estimate") is None else []


class ProfilePart(Part):
    """The profiles of a run."""

    names: list[str]


class RunPart(Part):
    """A run, as ``--claims-json`` writes it."""

    vperf: str
    started: Moment
    profile: ProfilePart | None
    fingerprint: dict[str, str] | None
    machines: dict[str, dict[str, str]] = Field(default_factory=dict)
    claims: list[ClaimPart]


class Kept(Part):
    """What ``--keep`` writes: the runs of the last verdicts, with only these claims."""

    format: Literal[1] = 1
    vperf: str
    runs: list[RunPart]


_PROBLEMS_SHOWN = 3
#: The most targets of all claims of a file.
_MOST_TARGETS = 200_000


class RecordError(Exception):
    """A record cannot be read; the message names the file, and says what is wrong."""


class NoRecord(RecordError):
    """A file, JSON or not, is not a record of vperf."""


@dataclass
class Read:
    """The content of one file.

    Attributes:
        runs: its runs, in their order.
        note: a remark on a valid file; may be empty.
    """

    runs: list[RunPart]
    note: str = ""


def read(path: Path) -> Read:
    """Read the runs of a file: the one of ``--claims-json`` or its journal, or those that ``--keep`` wrote.

    Raises:
        RecordError: it cannot be read, is truncated or invalid; ``NoRecord`` if it is something else.
    """

    def check(head: dict[str, Any]) -> None:
        if "vperf" not in head or not {"claims", "runs"} & head.keys():
            raise NoRecord(f"{path}: is not a record of `pytest --claims-json`")
        reading.check_format(head)

    targets = 0

    def claim(number: int, text: bytes) -> ClaimPart:
        nonlocal targets
        part = checked(ClaimPart, text, f"claims.{number}.", most=_PROBLEMS_SHOWN)
        targets += len(part.targets)
        if targets > _MOST_TARGETS:
            raise RecordError(f"{path}: has more than {_MOST_TARGETS} targets, as no record does")
        return part

    try:
        found = reading.read(path, check, claim)
        if found.claims is None and "runs" in found.head:
            return Read(checked(Kept, found.head, most=_PROBLEMS_SHOWN).runs)
        head = found.head if found.claims is None else {**found.head, "claims": []}
        run = checked(RunPart, head, most=_PROBLEMS_SHOWN)
    except reading.ForeignFile as error:
        raise NoRecord(f"{path}: {error}") from None
    except (reading.RecordProblem, reading.WrongShape) as error:
        raise RecordError(f"{path}: {error}") from None
    if found.claims is None:
        return Read([run])
    note = f"{path}: {found.note}" if found.note else ""
    return Read([run.model_copy(update={"claims": found.claims})], note)


@dataclass
class Found:
    """The content of files and folders.

    Attributes:
        runs: the runs of all valid records.
        wrong: problems with named files, one line each, with the name.
        damaged: likewise, with files in folders.
        left_out: likewise, with files in folders that are not records.
        notes: remarks on valid files.
    """

    runs: list[RunPart] = field(default_factory=list)
    wrong: list[str] = field(default_factory=list)
    damaged: list[str] = field(default_factory=list)
    left_out: list[str] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)


def read_all(paths: Iterable[Path]) -> Found:
    """Read the runs of files, and of all ``*.json`` in folders."""
    found = Found()
    for path in paths:
        inside = path.is_dir()
        for file in sorted(path.glob("*.json")) if inside else [path]:
            try:
                one = read(file)
                found.runs += one.runs
                found.notes += [one.note] if one.note else []
            except NoRecord as error:
                (found.left_out if inside else found.wrong).append(str(error))
            except RecordError as error:
                (found.damaged if inside else found.wrong).append(str(error))
    return found
