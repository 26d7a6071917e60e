"""The sweep of a claim about where more load no longer increases throughput."""

from __future__ import annotations

from statistics import median
from typing import TYPE_CHECKING

from pytest_vperf.quantity import Quantity, format_number
from pytest_vperf.results.record import WHOLE, Load, LoadFacts, LoadRow, SweepRecord

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from pytest_vperf.results.record import Observation
    from pytest_vperf.stats.plateau import PlateauRule

    #: A number without a unit, or a quantity. A sampler returns a `Load`, or the quantity measured at the point.
    Point = int | float | Quantity
    LoadSampler = Callable[[Point], "Load | Quantity"]


class Sweep:
    """Takes the samples of a sweep, in the order its rule asks for, and keeps the facts of each load.

    Args:
        sample: takes a sample at a point.
        over: the points.
        rounds: the least number of rounds, all sessions together.
    """

    def __init__(self, sample: LoadSampler, over: Sequence[Point], rounds: int) -> None:
        self.sample = sample
        self.over = tuple(over)
        self.rounds = rounds
        self.rule: PlateauRule
        self._unit = ""
        self._facts: LoadFacts | None = None

    def take(self) -> Quantity:
        """Take the next sample, and return the throughput."""
        __tracebackhide__ = True
        index = self.rule.point
        point = self.over[index]
        made = self.sample(point)
        if not isinstance(made, Load):
            load = point if isinstance(point, Quantity) else Quantity(float(point))
            made = Load(load, load, made)
        self._unit = self._unit or made.asked.unit
        asked = made.asked.to(self._unit).value
        self.rule.loaded(asked, offered=made.counts)
        self._facts = LoadFacts(
            point=str(point),
            asked=asked,
            offered=made.offered.to(self._unit).value,
            unit=self._unit,
            counts=made.counts,
            held_back=made.held_back,
            busy={each.name: each.share for each in made.busy},
            wanted={each.name: each.wanted for each in made.busy},
        )
        return made.carried

    def take_last(self) -> Quantity:
        """Take a sample at the last point, outside the sweep, and return the throughput."""
        made = self.sample(self.over[-1])
        return made.carried if isinstance(made, Load) else made

    def facts(self) -> LoadFacts | None:
        """The load of the latest sample."""
        return self._facts

    def record(self, observations: Sequence[Observation]) -> SweepRecord:
        """The result of the sweep."""
        curve = self.rule.curve
        low, high = (curve.knee_low, curve.knee_high) if curve else (None, None)
        growth = curve.growth if curve else None
        return SweepRecord(
            shape=curve.shape if curve else "undecided",
            unit=self._unit,
            knee=curve.knee if curve else None,
            knee_interval=None if low is None and high is None else [low, high],
            growth=growth.estimate if growth else None,
            growth_interval=[growth.low, growth.high] if growth else None,
            flat=list(curve.flat) if curve else [],
            bottleneck=self.bottleneck(observations),
            loads=_rows(observations),
        )

    def bottleneck(self, observations: Sequence[Observation]) -> str:
        """The threads without idle time on the flat part; empty if nothing is flat, or no thread was watched.

        Such a thread used a whole processor, or would have done so had it not waited for one.
        """
        flat = self.rule.curve.flat if self.rule.curve else ()
        loads = [
            load
            for each in observations
            if (load := each.get("load")) and not each["warm_up"]
            if load["counts"] and load["asked"] in flat
        ]
        shares = _medians([load["busy"] for load in loads])
        wanted = _medians([load["wanted"] for load in loads])
        if not shares:
            return ""
        found = sorted(shares, key=lambda name: (-shares[name], name))
        whole = [f"{name} ({shares[name]:.0f} %)" for name in found if shares[name] >= WHOLE]
        if whole:
            return f"there, a whole processor was used by {' and by '.join(whole)}"
        waited = [
            f"{name} ({shares[name]:.0f} %, {wanted[name]:.0f} % with waiting)"
            for name in found
            if wanted[name] >= WHOLE
        ]
        if waited:
            return (
                "there, no thread had a whole processor, although one was wanted by"
                f" {' and by '.join(waited)}: there are too few processors"
            )
        name = found[0]
        return f"there, no thread used a whole processor: the busiest, {name}, used {shares[name]:.0f} %"


def _rows(observations: Sequence[Observation]) -> list[LoadRow]:
    """The medians at each load, sorted by load, without warm-up."""
    groups: dict[tuple[float, str], list[tuple[float, LoadFacts]]] = {}
    for each in observations:
        load = each.get("load")
        if load is not None and not each["warm_up"]:
            groups.setdefault((load["asked"], load["point"]), []).append((each["value"], load))
    return [
        LoadRow(
            point=point,
            asked=asked,
            offered=median(load["offered"] for _, load in group),
            carried=median(value for value, _ in group),
            n=len(group),
            left_out=sum(not load["counts"] for _, load in group),
            busiest=_busiest([load for _, load in group]),
        )
        for (asked, point), group in sorted(groups.items())
    ]


def _busiest(loads: Sequence[LoadFacts]) -> str:
    shares = _medians([load["busy"] for load in loads])
    if not shares:
        return ""
    name = max(shares, key=lambda each: shares[each])
    return f"{name} {format_number(round(shares[name]))} %"


def _medians(each: Sequence[Mapping[str, float]]) -> dict[str, float]:
    """The median by name; a name missing from a sample counts as 0, as it used next to nothing."""
    names = dict.fromkeys(name for shares in each for name in shares)
    return {name: median(shares.get(name, 0.0) for shares in each) for name in names}
