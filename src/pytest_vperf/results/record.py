"""The record of one claim, as plain data: it goes into the JSON file, through pytest-xdist, and into every report.

A record holds only values that JSON can represent, so none of these needs a conversion. `docs/results.md` describes
every key of a claim's record, sweeps included; `docs/density.md` those of a filled host. A load has the requested
rate, the rates that the sender offered and the receiver got, and who was busy meanwhile. The counts of both ends are
needed: a rate that no longer grows may be the limit of the path, of the receiver, or of the sender, and the latter
says nothing about the path.
"""

from __future__ import annotations

from contextlib import suppress
from dataclasses import dataclass
from functools import cache
from itertools import zip_longest
from sys import intern
from typing import TYPE_CHECKING, Any, Literal, NoReturn, TypedDict, cast

from pytest_vperf.foreign_text import to_json

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence
    from json import JSONDecoder

    from pytest_vperf.machine.noise import NoiseEvidence
    from pytest_vperf.quantity import Quantity


#: A sender that offers less than this share of the requested load could not do more, or was held back.
IN_FULL = 0.95
#: If less than this share of the offered load came through, the path is full; a path that is merely lossy loses less.
OVERRUN = 0.5
#: Between two records on their way from a worker; a record has no line end.
_BETWEEN = ",\n"
#: A thread that ran, or waited for a processor, for this share of the time had no idle time, in %.
WHOLE = 90.0


@dataclass(frozen=True)
class Busy:
    """How busy a thread, or another user of a processor, was.

    Attributes:
        name: readable, such as ``vhost-1234 of the sender``.
        share: the share of one processor that it used, in %.
        wanted: the same including the time it waited for a processor, in %.
        source: whether it is the sender, or what the sender runs on, rather than part of the path behind it.
    """

    name: str
    share: float
    wanted: float
    source: bool = False

    @property
    def had_time_left(self) -> bool:
        """Whether it had idle time."""
        return self.wanted < WHOLE


@dataclass(frozen=True)
class Load:
    """A load as requested, offered and carried: three quantities of one dimension.

    Attributes:
        asked: the load requested of the sender.
        offered: the load it offered, as counted by itself.
        carried: the load that came through, as counted by the receiver.
        busy: the threads watched meanwhile; empty if none were.
    """

    asked: Quantity
    offered: Quantity
    carried: Quantity
    busy: tuple[Busy, ...] = ()

    @property
    def in_full(self) -> bool:
        """Whether the sender offered the requested load."""
        return self.offered.to(self.asked.unit).value >= IN_FULL * self.asked.value

    @property
    def held_back(self) -> bool:
        """Whether the sender had idle time and waited for the path behind it, which is then the limit.

        Known only if threads were watched: otherwise a sender that offers too little is assumed to be the limit.
        """
        own = [each.had_time_left for each in self.busy if each.source]
        return not self.in_full and bool(own) and all(own)

    @property
    def overrun(self) -> bool:
        """Whether far more was offered than came through: then the sender is not the limit."""
        return (
            self.carried.to(self.asked.unit).value
            < OVERRUN * self.offered.to(self.asked.unit).value
        )

    @property
    def counts(self) -> bool:
        """Whether it says something about the path behind the sender, not only about the sender."""
        return self.in_full or self.held_back or self.overrun


class Reading(TypedDict):
    """The host's memory when ``n`` targets ran, ``at_s`` seconds after the start.

    Keys: ``available`` on the host, and ``group_used`` by the targets' control group, in bytes.
    """

    n: int
    at_s: float
    available: int
    group_used: int | None


class Spread(TypedDict):
    """The spread of a figure over several targets, in MiB."""

    min: float
    mean: float
    max: float


class Cost(TypedDict):
    """The cost of one more target, in MiB; an end is ``None`` if the readings do not bound that side."""

    estimate: float
    low: float | None
    high: float | None
    confidence: float


class FillingRecord(TypedDict):
    """One filling of a host."""

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
    """The minimum, mean and maximum of one or more values."""
    return Spread(min=min(values), mean=sum(values) / len(values), max=max(values))


class LoadFacts(TypedDict):
    """The load of one sample.

    Keys: ``point``, as the test named it; ``asked`` of the sender and ``offered`` by it, in ``unit``; ``counts``,
    false if the sender could not offer the load and no more than half of what it did offer was lost; ``held_back``,
    whether it offered less although it had idle time; ``busy``, shares of one processor in %, by name; ``wanted``,
    the same including the time spent waiting for one.
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
    """One load of a sweep: the medians of its ``n`` samples, of which ``left_out`` do not count, and the busiest
    thread."""

    point: str
    asked: float
    offered: float
    carried: float
    n: int
    left_out: int
    busiest: str


class SweepRecord(TypedDict):
    """The result of a sweep.

    Keys: ``shape``; ``knee``, in ``unit``, with its interval; ``growth`` of the flat part (d log y / d log x), with
    its interval; ``flat``, the loads of that part; ``bottleneck``, in words; ``loads``, sorted.
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


#: What takes memory to hold, and is worth to be held once.
_ONCE = (str, dict, list)
#: How deep a record is nested, with a margin.
_DEEPEST = 9


class _OfSweep(TypedDict, total=False):
    """Only samples of a sweep have this key."""

    load: LoadFacts


class Beside(TypedDict):
    """Figures measured along with a sample, in their own ``unit``; they are not judged."""

    unit: str
    values: list[float]


class Observation(_OfSweep):
    """One sample, as it was taken.

    Keys: ``order``, from 0; ``session``, from 1; ``at``, seconds from the claim's start to the sample's, monotonic;
    ``arm``, ``a`` or ``b`` in a comparison; ``value`` and ``parts`` in ``unit``; ``warm_up``, kept but not judged;
    ``beside``, figures measured along with it, by name; ``load``, in a sweep only.
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
    """One session of a claim; a limit has several, spread over the run.

    Keys: ``n``, from 1; ``started_at``, ISO time; ``began_at_s``, seconds since the first session began, monotonic;
    ``duration_s``; ``samples``, warm-up included.
    """

    n: int
    started_at: str
    began_at_s: float
    duration_s: float
    samples: int


class Noise(TypedDict):
    """The noise around a measurement: the machine's ``settings``, and the evidence from each session."""

    settings: dict[str, str]
    sessions: list[NoiseEvidence]


class Hardware(TypedDict):
    """The profile that judged a claim, and whether this machine is the one that ``--hw`` names."""

    profile: str
    location: str
    matches: bool
    mismatches: list[str]


class TargetFacts(TypedDict):
    """What a target really was, see `pytest_vperf.targets.base.Facts`, and the arms it was started for."""

    kind: str
    name: str
    arms: list[str]
    details: dict[str, str]


class ArmFigures(TypedDict):
    """What was measured of one arm of a comparison, by itself.

    Keys: ``estimate``, the median of its ``n`` samples, with its ``interval`` at ``confidence``, in ``unit``; the
    mean ``phases`` of its starts in ms. None of it is judged: the arms share their noise, so their ratio says more.
    """

    estimate: float
    interval: list[float | None]
    confidence: float
    unit: str
    n: int
    phases: dict[str, float]


class OfBaseline(TypedDict):
    """What a claim was held against: stored runs.

    Keys: ``word``, what ``--baseline`` named; the ``unit`` of the figures; the number of ``runs`` that have one;
    ``visible``, the smallest change that these runs could show, as a share, ``None`` if none; and how many more runs
    of each side are ``missing`` for that.
    """

    word: str
    unit: str
    runs: int
    visible: float | None
    missing: int


class ClaimRecord(TypedDict):
    """One claim with its verdict and all its measurements."""

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
    attempt: int
    started_at: str
    duration_s: float
    waited_s: float
    budget_s: float
    plan: dict[str, Any]
    seed: int
    noise: Noise
    warnings: list[str]
    sweep: SweepRecord | None
    sides: dict[str, str]
    arms: dict[str, ArmFigures]
    better: Literal["lower", "higher", ""]
    baseline: OfBaseline | None
    forecast: int | None
    machine: dict[str, str]


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
    machine: Mapping[str, str] | None = None,
) -> ClaimRecord:
    """The record of a claim that could not even start; ``mismatches`` are those of a profile named for the run, and
    ``machine`` the one of a fleet that it was to be measured on."""
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
        attempt=1,
        started_at=started_at,
        duration_s=0.0,
        waited_s=0.0,
        budget_s=budget,
        plan={},
        seed=seed,
        noise=Noise(settings={}, sessions=[]),
        warnings=[],
        sweep=None,
        sides={},
        arms={},
        better="",
        baseline=None,
        forecast=None,
        machine=dict(machine or {}),
    )


def sound(record: ClaimRecord) -> ClaimRecord:
    """The record if JSON can represent it, otherwise an error record of the same claim.

    JSON has no infinite numbers, for example. Whatever it can represent is kept, in lists element by element; the
    rest is as in a claim that was not measured, and a warning names the problem. A claim whose evidence cannot be
    recorded does not hold; one that was refuted stays refuted.
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
    # The reason for a refutation comes first.
    told = (
        [found["reason"], f"error: {text}"] if found["verdict"] == "refuted" else [f"error: {text}"]
    )
    found["reason"] = "; ".join(filter(None, told))
    found["warnings"] = [*found["warnings"], text]
    return cast("ClaimRecord", found)


def to_wire(records: Sequence[Mapping[str, Any]]) -> str:
    """Records as a text that pytest-xdist can carry, JSON with a line for each.

    Records that JSON cannot represent are left out; `sound` has made sure that no claim is one.
    """
    lines = []
    for each in records:
        with suppress(ValueError, TypeError, RecursionError):
            lines.append(to_json(each))
    return f"[{_BETWEEN.join(lines)}]"


def from_wire(text: str) -> list[Any]:
    """The records in a text made by `to_wire`."""
    import json

    found: list[Any] = json.loads(text)
    return found


def lines_from_wire(text: str) -> list[tuple[Any, str]]:
    """The same, and the line of each: that need not be made anew. It is empty where it is none that `to_json` would
    make: who sent the text may be another version, or none of ours."""
    if text.startswith("[{") and text.endswith("}]"):
        with suppress(ValueError):
            read = _decoder().decode
            return [
                (read(line), line if line.isprintable() else "")
                for line in text[1:-1].split(_BETWEEN)
            ]
    return [(each, "") for each in from_wire(text)]


@cache  # each one is a circle of objects, which would wait for Python's collector
def _decoder() -> JSONDecoder:
    from json import JSONDecoder

    return JSONDecoder(parse_constant=_no_json)


def _no_json(constant: str) -> NoReturn:
    raise ValueError(f"{constant} is not JSON")


def once(value: Any, last: Any) -> Any:
    """A dictionary of JSON, or a list of them, in which whatever another one has at the same place is that one's, as
    far as the two are equal."""
    if type(value) is list:
        own = zip_longest(value, last[: len(value)] if type(last) is list else ())
        return [
            once(each, other) if isinstance(each, (dict, list)) else each for each, other in own
        ]
    others = last if type(last) is dict else {}
    found: dict[str, Any] = {}
    for key, each in value.items():
        if (kind := type(each)) in _ONCE:  # a call for each number would take most of the time
            other = others.get(key)
            if each == other:
                each = other
            elif kind is not str:
                each = once(each, other)
        found[intern(key)] = each
    return found


def _part(value: Any, spare: Any) -> Any:
    """A value if JSON can represent it, otherwise the part that it can, or ``spare``."""
    if isinstance(value, list) and isinstance(spare, list):
        return [each for each in value if not _refusal(each)]
    return spare if _refusal(value) else value


def _refusal(value: Any, depth: int = 0) -> str:
    """The first place in a value that JSON cannot represent: ``observations.3.value is inf``; empty if there is
    none."""
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


def of_sides(record: ClaimRecord) -> bool:
    """Whether a claim of a gate compared two sides, and was not judged on one."""
    return len(set(record["sides"].values())) > 1


def judged(observations: Iterable[Observation]) -> list[Observation]:
    """The observations that are judged: all but the warm-up."""
    return [observation for observation in observations if not observation["warm_up"]]


def pair_ratios(observations: Iterable[Observation]) -> list[float]:
    """The ratios a/b of a comparison, the k-th ``a`` over the k-th ``b``; an incomplete pair is left out."""
    counted = judged(observations)
    arms = [[each["value"] for each in counted if each["arm"] == arm] for arm in ("a", "b")]
    return [a / b for a, b in zip(*arms, strict=False)]


def mean_phases(
    observations: Iterable[Observation], arm: Literal["a", "b"] = "a"
) -> dict[str, float]:
    """The mean of each part in milliseconds, in the parts' order; empty if they are not times.

    In a comparison only one arm counts: a mean over two targets would be meaningless. A part that some observations
    lack is averaged over those that have it.
    """
    from pytest_vperf.quantity import DimensionError, conversion_factor

    values: dict[str, list[float]] = {}
    for observation in judged(observations):
        if observation["arm"] != arm or not observation["parts"]:
            continue
        try:
            factor = conversion_factor(observation["unit"], "ms")
        except DimensionError:
            return {}
        for name, part in observation["parts"].items():
            values.setdefault(name, []).append(part * factor)
    return {name: sum(parts) / len(parts) for name, parts in values.items()}
