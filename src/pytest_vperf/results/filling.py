"""The record of one filling of a host, as plain data: `docs/density.md` describes every key."""

from __future__ import annotations

from typing import TYPE_CHECKING, TypedDict

if TYPE_CHECKING:
    from pytest_vperf.results.record import TargetFacts


class Reading(TypedDict):
    """What the host had when ``n`` targets ran, ``at_s`` seconds after the begin.

    Keys: ``available`` of the host and ``group_used``, of the control group of all, in bytes.
    """

    n: int
    at_s: float
    available: int
    group_used: int | None


class Spread(TypedDict):
    """A figure of several targets, in MiB."""

    min: float
    mean: float
    max: float


class Cost(TypedDict):
    """What one further target takes, in MiB; an end is ``None`` where the readings do not bound that side."""

    estimate: float
    low: float | None
    high: float | None
    confidence: float


class FillingRecord(TypedDict):
    """One filling."""

    name: str
    nodeid: str
    started_at: str
    duration_s: float
    teardown_s: float | None
    count: int
    stop: str
    why: str
    most: int | None
    memory: int
    memory_asked: bool
    floor: int
    floor_asked: bool
    at_once: int
    held: bool
    outside: bool
    watched: str
    options: dict[str, str]
    curve: list[Reading]
    process: dict[str, Spread]
    inside: dict[str, Spread]
    cost: Cost | None
    cost_in_group: Cost | None
    targets: list[TargetFacts]


def spread(values: list[float]) -> Spread:
    """The least, the mean and the greatest of some values, at least one."""
    return Spread(min=min(values), mean=sum(values) / len(values), max=max(values))
