"""The record of one claim, as plain data: what goes into the JSON file, through pytest-xdist, into every report.

A record is made of what JSON can say and nothing else, so it needs no conversion on any of these ways.
`docs/results.md` describes every key for readers of the file.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Literal, TypedDict

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from pytest_vperf.machine.noise import NoiseEvidence
    from pytest_vperf.results.sweep import LoadFacts, SweepRecord


class _OfSweep(TypedDict, total=False):
    """Of the samples of a sweep alone: of which load they are."""

    load: LoadFacts


class Beside(TypedDict):
    """Figures of one name that were measured along with a sample, in their own ``unit``; none is judged."""

    unit: str
    values: list[float]


class Observation(_OfSweep):
    """One sample, as it was taken.

    Keys: ``order`` from 0 on; ``session`` from 1 on; ``at``, seconds from the claim's start to the sample's,
    monotonic; ``arm``, of a comparison ``a`` or ``b``; ``value`` and ``parts`` in ``unit``; ``warm_up``, kept but
    not judged; ``beside``, by name what was measured along with it; ``load``, of a sweep alone.
    """

    order: int
    session: int
    at: float
    arm: Literal["a", "b"]
    value: float
    unit: str
    warm_up: bool
    parts: dict[str, float]
    beside: dict[str, Beside]


class Session(TypedDict):
    """When a part of the samples was taken; a limit has several, spread over the run.

    Keys: ``n`` from 1 on; ``started_at``, ISO time; ``began_at_s``, seconds since the first one's beginning,
    monotonic; ``duration_s``; ``samples``, warm-up included.
    """

    n: int
    started_at: str
    began_at_s: float
    duration_s: float
    samples: int


class Noise(TypedDict):
    """What disturbed the measurement: the machine's ``settings``, and for each session what was seen."""

    settings: dict[str, str]
    sessions: list[NoiseEvidence]


class Hardware(TypedDict):
    """By which profile a claim was judged, and whether this machine is the one that ``--hw`` names."""

    profile: str
    location: str
    matches: bool
    mismatches: list[str]


class TargetFacts(TypedDict):
    """What a target really was: see `pytest_vperf.targets.base.Facts`; and whose samples it was started for."""

    kind: str
    name: str
    arms: list[str]
    details: dict[str, str]


class ClaimRecord(TypedDict):
    """One claim with its verdict and everything that was measured for it."""

    name: str
    verdict: str
    unit: str
    samples: list[float]
    target: str
    reason: str
    cause: str
    criterion: str
    summary: str
    statistic: str
    threshold: float | None
    estimate: float | None
    interval: list[float | None] | None
    confidence: float | None
    gap: float | None
    gap_percent: float | None
    n: int
    observations: list[Observation]
    sessions: list[Session]
    phases: dict[str, float]
    source: str
    hardware: Hardware
    targets: list[TargetFacts]
    nodeid: str
    started_at: str
    duration_s: float
    waited_s: float
    budget_s: float
    plan: dict[str, Any]
    seed: int
    noise: Noise
    warnings: list[str]
    sweep: SweepRecord | None


def unmeasured(
    name: str,
    reason: str,
    *,
    target: str,
    nodeid: str,
    started_at: str,
    budget: float,
    seed: int,
    mismatches: Sequence[str] = (),
) -> ClaimRecord:
    """The record of a claim that could not even begin; ``mismatches`` are those of a profile named for the run."""
    return ClaimRecord(
        name=name,
        verdict="not measured",
        unit="",
        samples=[],
        target=target,
        reason=reason,
        cause="",
        criterion="none",
        summary="",
        statistic="",
        threshold=None,
        estimate=None,
        interval=None,
        confidence=None,
        gap=None,
        gap_percent=None,
        n=0,
        observations=[],
        sessions=[],
        phases={},
        source="",
        hardware=Hardware(
            profile="", location="", matches=not mismatches, mismatches=list(mismatches)
        ),
        targets=[],
        nodeid=nodeid,
        started_at=started_at,
        duration_s=0.0,
        waited_s=0.0,
        budget_s=budget,
        plan={},
        seed=seed,
        noise=Noise(settings={}, sessions=[]),
        warnings=[],
        sweep=None,
    )


def judged(observations: Iterable[Observation]) -> list[Observation]:
    """The observations that count: all but the warm-up."""
    return [observation for observation in observations if not observation["warm_up"]]


def pair_ratios(observations: Iterable[Observation]) -> list[float]:
    """The ratios a/b of a comparison, the k-th ``a`` over the k-th ``b``; an arm without its twin is left out."""
    counted = judged(observations)
    arms = [[each["value"] for each in counted if each["arm"] == arm] for arm in ("a", "b")]
    return [a / b for a, b in zip(*arms, strict=False) if b]


def mean_phases(observations: Iterable[Observation]) -> dict[str, float]:
    """The mean of each part in milliseconds, in the parts' order; empty where they are no times.

    Of a comparison only the first arm counts: the phases of two targets have no common mean. A part that some
    observations lack is averaged over those that have it.
    """
    from pytest_vperf.quantity import DimensionError, conversion_factor

    values: dict[str, list[float]] = {}
    for observation in judged(observations):
        if observation["arm"] != "a" or not observation["parts"]:
            continue
        try:
            factor = conversion_factor(observation["unit"], "ms")
        except DimensionError:
            return {}
        for name, part in observation["parts"].items():
            values.setdefault(name, []).append(part * factor)
    return {name: sum(parts) / len(parts) for name, parts in values.items()}
