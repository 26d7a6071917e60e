"""What the record of a claim about a sweep has besides; ``docs/results.md`` describes every key."""

from __future__ import annotations

from typing import TypedDict


class LoadFacts(TypedDict):
    """Of which load one sample is.

    Keys: ``point``, as the test named it; ``asked`` of the sender and ``offered`` by it, in ``unit``; ``counts``, not
    so where the sender could not offer the load, and no more than half of what it did was lost; ``held_back``, it
    offered less and had time left; ``busy``, shares of one processor in %, by name; ``wanted``, the same with the
    time that was waited for one.
    """

    point: str
    asked: float
    offered: float
    unit: str
    counts: bool
    held_back: bool
    busy: dict[str, float]
    wanted: dict[str, float]


class LoadRow(TypedDict):
    """One load of a sweep: medians of its ``n`` samples, of which ``left_out`` do not count; who was busiest."""

    point: str
    asked: float
    offered: float
    carried: float
    n: int
    left_out: int
    busiest: str


class SweepRecord(TypedDict):
    """What a sweep showed.

    Keys: ``shape``; ``knee``, in ``unit``, with its interval; ``growth`` of the flat part (d log y / d log x), with
    its interval; ``flat``, its loads; ``bottleneck``, in words; ``loads``, by size.
    """

    shape: str
    unit: str
    knee: float | None
    knee_interval: list[float | None] | None
    growth: float | None
    growth_interval: list[float | None] | None
    flat: list[float]
    bottleneck: str
    loads: list[LoadRow]
