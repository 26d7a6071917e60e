"""The record of one claim, as plain data: what goes into the JSON file, through pytest-xdist, into every report.

A record is made of what JSON can say and nothing else, so it needs no conversion on any of these ways.
`docs/results.md` describes every key for readers of the file.

What becomes of a load: what was asked for, what the sender offered, what came through, and who was busy meanwhile.

Both ends' accounts are needed: a rate that does not grow any more may be the path's, the receiver's, or that of a
sender which cannot do more. The latter says nothing about what lies behind the sender.

The record of one filling of a host, as plain data: `docs/density.md` describes every key.

What the record of a claim about a sweep has besides; ``docs/results.md`` describes every key.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal, TypedDict, cast

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from pytest_vperf.machine.noise import NoiseEvidence
    from pytest_vperf.quantity import Quantity


#: A sender that offers less than this share of what it was asked for could not, or was held back.
IN_FULL = 0.95
#: Where less than this share of what was offered came through, the way is full; one that loses some of everything,
#: full or not, loses less.
OVERRUN = 0.5
#: A thread that ran, or waited for a processor, for this share of the time had no time left, in %.
WHOLE = 90.0


@dataclass(frozen=True)
class Busy:
    """How busy a thread was, or another user of a processor.

    Attributes:
        name: for people: ``vhost-1234 of the sender``.
        share: of one processor that it had, in %.
        wanted: the same with the time that it waited for a processor, in %.
        source: whether it is the sender itself, or what the sender runs on, and no part of the way behind it.
    """

    name: str
    share: float
    wanted: float
    source: bool = False

    @property
    def had_time_left(self) -> bool:
        """Whether it could have done more."""
        return self.wanted < WHOLE


@dataclass(frozen=True)
class Load:
    """What became of a load; three quantities of one dimension.

    Attributes:
        asked: what the sender was asked to offer.
        offered: what it did offer, by its own account.
        carried: what came through, by the receiver's account.
        busy: who was, meanwhile; empty where nobody looked.
    """

    asked: Quantity
    offered: Quantity
    carried: Quantity
    busy: tuple[Busy, ...] = ()

    @property
    def in_full(self) -> bool:
        """Whether the sender offered what it was asked for."""
        return self.offered.to(self.asked.unit).value >= IN_FULL * self.asked.value

    @property
    def held_back(self) -> bool:
        """Whether the sender had time left and waited for the way behind it: then it is no limit of its own.

        Only where somebody looked: without evidence a sender that offers too little could not offer more.
        """
        own = [each.had_time_left for each in self.busy if each.source]
        return not self.in_full and bool(own) and all(own)

    @property
    def overrun(self) -> bool:
        """Whether far more was offered than came through: then it is not the sender that limits it."""
        return (
            self.carried.to(self.asked.unit).value
            < OVERRUN * self.offered.to(self.asked.unit).value
        )

    @property
    def counts(self) -> bool:
        """Whether it says something of the way behind the sender, and not of the sender alone."""
        return self.in_full or self.held_back or self.overrun


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


#: How deep a record is nested, and some more.
_DEEPEST = 9


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


def sound(record: ClaimRecord) -> ClaimRecord:
    """The record if JSON can say it, else an error record of the same claim that it can.

    JSON has no words for an infinite number, for one. What it can say of the record is kept, of a list each element,
    the rest is as in a claim that was not measured, and a warning says what it was. A claim whose evidence cannot be
    written down is not shown to hold; one that is refuted stays refuted.
    """
    why = _refusal(record)
    if not why:
        return record
    values: dict[str, Any] = dict(record)
    spare: dict[str, Any] = dict(
        unmeasured("", "", target="", nodeid="", started_at="", budget=0.0, seed=0)
    )
    found = {key: _part(values.get(key), spare[key]) for key in spare}
    text = f"the record cannot be written whole: {why}"
    if found["verdict"] in ("holds", ""):
        found["verdict"], found["cause"] = "inconclusive", "error"
    # A refutation says first what refutes it.
    told = (
        [found["reason"], f"error: {text}"] if found["verdict"] == "refuted" else [f"error: {text}"]
    )
    found["reason"] = "; ".join(filter(None, told))
    found["warnings"] = [*found["warnings"], text]
    return cast("ClaimRecord", found)


def to_wire(records: Sequence[Mapping[str, Any]]) -> str:
    """Records as a text that pytest-xdist can carry: ASCII, while texts of records may be none that UTF-8 has.

    What JSON has no words for is left out; `sound` has seen to it that claims have nothing of that kind.
    """
    import json

    return json.dumps([each for each in records if not _refusal(each)])


def from_wire(text: str) -> list[Any]:
    """The records of such a text."""
    import json

    found: list[Any] = json.loads(text)
    return found


def _part(value: Any, spare: Any) -> Any:
    """A value of a record if JSON can say it, else what it can say of it."""
    if isinstance(value, list) and isinstance(spare, list):
        return [each for each in value if not _refusal(each)]
    return spare if _refusal(value) else value


def _refusal(value: Any, depth: int = 0) -> str:
    """Where in a value there is something JSON has no words for: ``observations.3.value is inf``; empty: nowhere."""
    import json

    try:
        json.dumps(value, allow_nan=False, ensure_ascii=False)
    except (ValueError, TypeError, RecursionError) as error:
        reason = f" is {value}" if isinstance(value, float) else f": {error}"
    else:
        return ""
    parts: Iterable[tuple[object, Any]] = ()
    if isinstance(value, dict):
        parts = value.items()
    elif isinstance(value, (list, tuple)):
        parts = enumerate(value)
    for key, part in parts if depth < _DEEPEST else ():
        if where := _refusal(part, depth + 1):
            return f"{key}{'' if where[0] in ' :' else '.'}{where}"
    return reason


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
