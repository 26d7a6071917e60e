"""What the table reads of a record, and what ``--keep`` writes of it: everything but the samples and their noise.

Keys that are not named here are left alone: a record has many more.
"""

from __future__ import annotations

from datetime import datetime
from typing import Annotated, Literal

from pydantic import AfterValidator, BaseModel, ConfigDict, Field, ValidationInfo, field_validator

#: Of ``docs/results.md``.
FORMAT = 1
#: The details of a target that say where it was, and of two machines of one kind what tells them apart.
_WHERE = ("lab", "emulated", "on", "guest_kernel")
Verdict = Literal["holds", "refuted", "inconclusive", "not comparable", "not measured"]


def _moment(text: str) -> str:
    if datetime.fromisoformat(text).tzinfo is None:
        raise ValueError("a time without its zone")
    return text


Moment = Annotated[str, AfterValidator(_moment)]
#: Of one claim; the greatest number that a document publishes is 1,023.
MOST_TARGETS = 2000
#: Of longer texts the beginning is kept: a table shows less of each, and a file may have very many.
LONGEST = 4000
Words = Annotated[str, AfterValidator(lambda text: text[:LONGEST])]


class _Part(BaseModel):
    model_config = ConfigDict(strict=True, allow_inf_nan=False, extra="ignore", frozen=True)


class TargetPart(_Part):
    """What a target was; of its details those that say where it was."""

    kind: Words
    name: Words
    details: dict[str, Words]

    @field_validator("details")
    @classmethod
    def _where(cls, details: dict[str, str]) -> dict[str, str]:
        return {key: details[key] for key in _WHERE if key in details}


class HardwarePart(_Part):
    """By which profile it was judged, and whether the machine is that of the profile named."""

    profile: Words
    matches: bool
    mismatches: Annotated[list[Words], Field(max_length=MOST_TARGETS)]


class ClaimPart(_Part):
    """A claim; of its samples the first where there is no estimate, for which it stands then."""

    name: Annotated[str, Field(min_length=1, max_length=200)]
    verdict: Verdict
    reason: Words
    criterion: Words
    statistic: Words
    unit: Annotated[str, Field(max_length=40)]
    estimate: float | None
    interval: tuple[float | None, float | None] | None
    n: Annotated[int, Field(ge=0, le=10**9)]
    samples: list[float]
    target: Words
    targets: Annotated[list[TargetPart], Field(max_length=MOST_TARGETS)]
    hardware: HardwarePart
    nodeid: Words
    started_at: Moment

    @field_validator("samples")
    @classmethod
    def _first(cls, samples: list[float], info: ValidationInfo) -> list[float]:
        return samples[:1] if info.data.get("estimate") is None else []


class ProfilePart(_Part):
    """The profiles of a run."""

    names: list[str]


class RunPart(_Part):
    """A run, as ``--claims-json`` writes it."""

    vperf: str
    started: Moment
    profile: ProfilePart | None
    fingerprint: dict[str, str] | None
    claims: list[ClaimPart]


class Kept(_Part):
    """What ``--keep`` writes: the runs that the last verdicts are of, with these claims only."""

    format: Literal[1] = 1
    vperf: str
    runs: list[RunPart]
