"""The judge of a sweep of loads: whether throughput flattens, and whether near a value.

A sweep shows a curve that flattens, one that still rises, or one that falls again. The model has two phases and is
continuous: log y = level - slope * max(0, knee - log x) (Hudson 1966, Fitting
segmented curves whose join points have to be estimated; Hinkley 1971, Inference in two-phase regression). In
logarithms a line through the origin has slope 1, and noise proportional to the value is constant. The slope is fitted
if at least two loads lie below the knee; a single one cannot separate slope and knee, so the slope is then 1.

The knee is found by least squares on the medians of the loads, over a grid of places between them; its interval holds
the knees whose sum of squares is not significantly greater (profile likelihood, as in Hinkley, section 3). Statements
about the flat part hold for each of these knees. Its level is the median of its samples, with an interval between
order statistics, both robust to outliers. Flatness is judged by rank correlation (Sen 1968, Estimates
of the regression coefficient based on Kendall's tau): the growth of y with x, d log y / d log x, is 1 for a line
through the origin and 0 for a plateau.
"""

from __future__ import annotations

import math
import random
from dataclasses import dataclass
from statistics import NormalDist, median
from typing import TYPE_CHECKING, Literal

from pytest_vperf.stats.evidence import Interval, quantile_interval, sample_quantile
from pytest_vperf.stats.rule import (
    ROUNDS,
    Ending,
    State,
    check_error,
    check_positive,
    check_share,
    check_whole,
    count,
)

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from pytest_vperf.stats.rule import Arm, Cause, Decision


Shape = Literal["plateau", "rises", "falls", "undecided"]

#: The greatest growth that is called flat: twice the load brings 7 % more throughput.
FLAT = 0.1
#: The fewest loads in a flat part: two could look flat by two equal errors.
LEAST_FLAT = 3
#: Number of knees tried between two loads.
_PLACES = 12
#: The 99 % quantile of the chi-squared distribution with one degree of freedom.
_SIGNIFICANT = 6.63
#: Variance of a median over that of a mean, for normal noise (pi / 2), and the standard deviation of a normal
#: distribution over its median absolute deviation (Kendall and Stuart, The Advanced Theory of Statistics, 10.11).
_MEDIAN_FACTOR, _MAD_FACTOR = math.pi / 2, 1.4826


@dataclass(frozen=True)
class Curve:
    """The curve fitted to the samples of a sweep.

    Attributes:
        shape: ``plateau``; ``rises``, up to the greatest load; ``falls``, after rising; or ``undecided``, if the
        samples do not show it.
        level: the level of the flat part or, if the curve falls, the greatest level of any load; with its interval.
        knee: the load at which the curve reaches the level; ``None`` if the smallest load is already beyond it.
        knee_low: the smallest knee that the samples do not reject; ``None`` likewise.
        knee_high: the greatest such knee.
        growth: d log y / d log x over the flat part, with its interval.
        flat: the loads of the flat part.
    """

    shape: Shape
    level: Interval
    knee: float | None
    knee_low: float | None
    knee_high: float | None
    growth: Interval
    flat: tuple[float, ...]


def fit(
    samples: Mapping[float, Sequence[float]],
    low_error: float,
    high_error: float,
    shape_error: float,
) -> Curve:
    """Fit the two phases.

    Args:
        samples: throughput by load; loads and samples are positive, and at least three loads.
        low_error: chance that the level is below its interval, between 0 and 0.5.
        high_error: chance that it is above, likewise.
        shape_error: chance that the shape is wrong, likewise.

    Raises:
        ValueError: there are fewer than three loads, or one has no samples.
    """
    loads = sorted(samples)
    if len(loads) < LEAST_FLAT or not all(samples[load] for load in loads):
        raise ValueError(f"a curve needs samples of at least {LEAST_FLAT} loads")
    accepted, best = _knees([math.log(load) for load in loads], samples)
    # Each set of loads that may be the flat part; that of the best knee decides the shape.
    sets = list(dict.fromkeys(tuple(x for x in loads if math.log(x) >= at) for at in accepted))
    flat = tuple(x for x in loads if math.log(x) >= best)
    candidates = len(loads) - LEAST_FLAT + 1
    growth = sen(
        [(math.log(x), math.log(y)) for x in flat for y in samples[x]],
        shape_error / candidates,
    )
    shape = _shape(growth)
    if shape == "falls":
        peak = max(loads, key=lambda load: median(samples[load]))
        level = quantile_interval(samples[peak], 0.5, low_error, high_error)
    else:
        each = [
            quantile_interval([y for x in part for y in samples[x]], 0.5, low_error, high_error)
            for part in sets
        ]
        lows, highs = [one.low for one in each], [one.high for one in each]
        level = Interval(
            sample_quantile(sorted(y for x in flat for y in samples[x]), 0.5),
            None if None in lows else min(low for low in lows if low is not None),
            None if None in highs else max(high for high in highs if high is not None),
        )
    first = math.log(loads[0])
    knee, knee_low, knee_high = (
        None if at <= first else math.exp(at) for at in (best, min(accepted), max(accepted))
    )
    return Curve(shape, level, knee, knee_low, knee_high, growth, flat)


def _shape(growth: Interval) -> Shape:
    low, high = growth.low, growth.high
    if low is not None and low > FLAT:
        return "rises"
    if high is not None and high < -FLAT:
        return "falls"
    if low is not None and high is not None and low >= -FLAT and high <= FLAT:
        return "plateau"
    return "undecided"


def _knees(
    places: Sequence[float], samples: Mapping[float, Sequence[float]]
) -> tuple[list[float], float]:
    """The logarithms of all knees that are not rejected, and that of the best one."""
    groups = [[math.log(value) for value in samples[load]] for load in sorted(samples)]
    heights = [median(group) for group in groups]
    spread = _spread(groups)
    variances = [_MEDIAN_FACTOR * spread**2 / len(group) for group in groups]
    tried = {}
    for left, right in zip(
        [places[0], *places], places[: len(places) - LEAST_FLAT + 1], strict=False
    ):
        for step in range(1, _PLACES + 1):
            # The last one is the load itself: a sum might miss it by rounding, and drop it from the flat part.
            knee = right if step == _PLACES else left + (right - left) * step / _PLACES
            tried[knee] = _misfit(knee, places, heights, variances)
    best = min(tried, key=lambda knee: (tried[knee], knee))
    limit = tried[best] + _SIGNIFICANT
    return [knee for knee, misfit in tried.items() if misfit <= limit], best


def _spread(groups: Sequence[Sequence[float]]) -> float:
    """The robust standard deviation of samples around the median of their load; at least one millionth."""
    off = [abs(value - median(group)) for group in groups if len(group) > 1 for value in group]
    if not off:
        return 0.01  # one sample per load says nothing about the noise
    # Deviations from the median of a few samples are smaller than those from the truth.
    size = len(off) / sum(len(group) > 1 for group in groups)
    return max(1e-6, _MAD_FACTOR * median(off) * math.sqrt(size / (size - 1)))


def _misfit(
    knee: float, places: Sequence[float], heights: Sequence[float], variances: Sequence[float]
) -> float:
    """The smallest weighted sum of squares for a given knee."""
    below = [max(0.0, knee - place) for place in places]
    weights = [1 / variance for variance in variances]
    rising = sum(depth > 0 for depth in below)
    total = sum(weights)
    mean_y = sum(w * y for w, y in zip(weights, heights, strict=True)) / total
    mean_z = sum(w * z for w, z in zip(weights, below, strict=True)) / total
    slope = 1.0 if rising == 1 else 0.0
    if rising > 1:
        of_z = sum(w * (z - mean_z) ** 2 for w, z in zip(weights, below, strict=True))
        both = sum(
            w * (z - mean_z) * (y - mean_y) for w, z, y in zip(weights, below, heights, strict=True)
        )
        slope = max(0.0, -both / of_z)
    level = mean_y + slope * mean_z
    return sum(
        w * (y - level + slope * z) ** 2 for w, z, y in zip(weights, below, heights, strict=True)
    )


def sen(points: Sequence[tuple[float, float]], error: float) -> Interval:
    """The median of the slopes between all pairs of points, with its interval (Sen 1968, sections 4 and 6).

    Args:
        points: x and y; pairs of equal x have no slope and are left out.
        error: chance that the truth lies below the interval, and the same for above it.
    """
    slopes = sorted(
        (y2 - y1) / (x2 - x1)
        for place, (x1, y1) in enumerate(points)
        for x2, y2 in points[place + 1 :]
        if x1 != x2
    )
    if not slopes:
        raise ValueError("all points have one x")
    size = len(points)
    ties: dict[float, int] = {}
    for x, _ in points:
        ties[x] = ties.get(x, 0) + 1
    # The variance of Kendall's statistic with ties in x (Sen 1968, 2.6).
    variance = size * (size - 1) * (2 * size + 5)
    variance -= sum(tied * (tied - 1) * (2 * tied + 5) for tied in ties.values())
    reach = NormalDist().inv_cdf(1 - error) * math.sqrt(variance / 18)
    low = math.floor((len(slopes) - reach) / 2)
    return Interval(
        sample_quantile(slopes, 0.5),
        slopes[low - 1] if low >= 1 else None,
        slopes[len(slopes) - low] if low >= 1 else None,
    )


def of_double(growth: float | None) -> str:
    """The extra throughput from twice the load, in words."""
    return "any share" if growth is None else f"{100 * (2**growth - 1):.3g} %"


def where_flat(curve: Curve) -> str:
    """The location of a plateau, in words."""
    flat = f"flat over {len(curve.flat)} loads, to {max(curve.flat):.6g}"
    if curve.knee is None:
        return f"{flat}; already at the least one, {min(curve.flat):.6g}"
    between = ""
    if curve.knee_low is not None and curve.knee_high is not None:
        between = f" [{curve.knee_low:.6g}, {curve.knee_high:.6g}]"
    return f"{flat}, from a knee at {curve.knee:.6g}{between} on"


#: Error of each end of an interval that is only described.
_DESCRIBED = 0.005


class PlateauRule(Ending):
    """Takes every load once per round, in random order, and judges when all rounds are over.

    The number of samples is fixed in advance, so repeated looks cost nothing. The rounds are spread over the
    sessions, since a machine's level moves between them: a verdict about the level requires each session's own median
    to lie on the same side.

    A load that the sender did not offer, although nothing held it back, says nothing about the path behind the
    sender: such samples are left out, and if too few are left for a plateau, that is the reason given.

    Attributes:
        point: the index of the next load.
        curve: the fitted curve; ``None`` until sampling ends, or if the samples are too few.
        short: the loads that the sender could not offer, with the number of samples.
    """

    def __init__(
        self,
        points: int,
        *,
        value: float | None = None,
        tolerance: float = 0.02,
        alpha: float = 0.01,
        beta: float = 0.01,
        sessions: int = 3,
        rounds: int = ROUNDS,
        seed: int = 0,
    ) -> None:
        """Make the rule.

        Args:
            points: the number of loads.
            value: the claimed level, in the unit of the samples; ``None`` only describes it.
            tolerance: how far off still counts as near, as a share of the value.
            alpha: greatest chance that a true claim is refuted.
            beta: greatest chance that an untrue claim holds.
            sessions: how many; the rule is `paused` between them.
            rounds: the least number of rounds, all sessions together; each session takes the same number.
            seed: the seed of the random orders.

        Raises:
            ValueError: an argument is invalid, or the loads are too few to show a plateau.
        """
        super().__init__()
        self._points = check_whole("points", points, LEAST_FLAT)
        self._value = None if value is None else check_positive("the value", value)
        self._reach = check_share("the tolerance", tolerance) * (self._value or 1.0)
        self._alpha, self._beta = check_error("alpha", alpha), check_error("beta", beta)
        self._sessions = check_whole("sessions", sessions, 1)
        self._each = -(-check_whole("rounds", rounds, 1) // self._sessions)
        self._order = random.Random(seed)  # nosec B311 # an order, not a secret
        self._left: list[int] = []
        self._rounds = 0
        self._session = 1
        self._warm_up = True
        self._load: tuple[float, bool] | None = None
        self._samples: list[tuple[float, float, int]] = []
        self.curve: Curve | None = None
        self.short: dict[float, int] = {}

    @property
    def point(self) -> int:
        """The index of the next load."""
        if not self._left:
            self._left = list(range(self._points))
            self._order.shuffle(self._left)
        return self._left[-1]

    def next(self) -> Arm:
        """The only arm."""
        return "a"

    @property
    def warming_up(self) -> bool:
        """Whether the next value is a warm-up: the first of each session."""
        return self._warm_up

    @property
    def paused(self) -> bool:
        """Whether the session is over and another one follows."""
        return not self.decided and self._rounds == self._session * self._each

    def resume(self) -> None:
        """Begin the next session."""
        if self.paused:
            self._session += 1
            self._warm_up = True

    def loaded(self, load: float, *, offered: bool = True) -> None:
        """Set the load of the next value.

        Args:
            load: the requested load; positive, and the same for every sample of a point.
            offered: whether the sample counts: false if the sender itself could not offer the load, neither held back
            nor losing most of it on the path.
        """
        self._load = check_positive("the load", load), offered

    def add(self, value: float) -> None:
        """Take a value at the load that `point` named and `loaded` set.

        Raises:
            ValueError: the value is not positive, the load is not set or, after the first round, too few points have
            different loads.
        """
        value = check_positive("a sample", value)
        if self._load is None:
            raise ValueError("the load of the sample is not known")
        (load, offered), self._load = self._load, None
        self.resume()
        if self.decided:
            return
        if self._warm_up:
            self._warm_up = False
            return
        _ = self.point
        self._left.pop()
        if offered:
            self._samples.append((load, value, self._session))
        else:
            self.short[load] = self.short.get(load, 0) + 1
        self._rounds += not self._left
        if self._rounds == 1 and not self._left:
            self._check_loads()
        if self._rounds == self._sessions * self._each:
            self._judge()

    def _check_loads(self) -> None:
        """Refuse points with too few different loads, before all rounds are taken."""
        different = len({load for load, _, _ in self._samples} | self.short.keys())
        if different < LEAST_FLAT:
            raise ValueError(
                f"of {self._points} points only {different} have different loads: fewer than {LEAST_FLAT} show no"
                " plateau"
            )

    def stop(self, cause: Cause, reason: str) -> None:
        """End the sampling without a decision, if there is none yet; the curve is fitted anyway."""
        if not self.decided:
            self.curve = self._fit()
            self._end("inconclusive", cause, reason)

    def _fit(self) -> Curve | None:
        loads = self._by_load()
        if len(loads) < LEAST_FLAT:
            return None
        low, high = self._errors
        return fit(loads, low, high, min(self._alpha, self._beta))

    def _by_load(self) -> dict[float, list[float]]:
        found: dict[float, list[float]] = {}
        for load, value, _ in self._samples:
            found.setdefault(load, []).append(value)
        return found

    def _judge(self) -> None:
        curve = self.curve = self._fit()
        if curve is None or (self.short and curve.shape != "plateau"):
            most = max((value for _, value, _ in self._samples), default=None)
            seen = "" if most is None else f"; up to {most:.6g} came through"
            size = count(sum(self.short.values()), "sample")
            self._end(
                "inconclusive",
                "sender",
                f"the sender could not offer the requested load in {size}, from a load of"
                f" {min(self.short):.6g} on: nothing is known about the path behind it{seen}",
            )
        elif curve.shape == "rises":
            self._end(
                "inconclusive",
                "still rising",
                f"no plateau: it still rises at the greatest load, {max(curve.flat):.6g}; greater ones are needed",
            )
        elif curve.shape == "undecided":
            low, high = of_double(curve.growth.low), of_double(curve.growth.high)
            self._end(
                "inconclusive",
                "too close to call",
                "whether it is flat is undecided: twice the load brings between"
                f" {low} and {high} more throughput",
            )
        elif curve.shape == "falls":
            decision: Decision = "inconclusive" if self._value is None else "refuted"
            last = median(self._by_load()[max(curve.flat)])
            self._end(
                decision,
                "",
                f"no plateau: it falls again, from {curve.level.estimate:.6g} to {last:.6g} at the greatest load,"
                f" {max(curve.flat):.6g} (congestion collapse)",
            )
        else:
            self._near(curve)

    def _near(self, curve: Curve) -> None:
        """Hold the level of a plateau against the value."""
        where = where_flat(curve)
        if self._value is None:
            self._end("inconclusive", "", f"no threshold; {where}")
            return
        low, high = self._value - self._reach, self._value + self._reach
        loads = self._by_load()
        errors = min(self._alpha, self._beta)
        refuting = fit(loads, self._alpha / 2, self._alpha / 2, errors).level
        holding = fit(loads, self._beta, self._beta, errors).level
        of_each = [
            [value for load, value, when in self._samples if when == number and load in curve.flat]
            for number in range(1, self._sessions + 1)
        ]
        if not all(of_each):
            number = of_each.index([]) + 1
            self._end(
                "inconclusive",
                "sender",
                f"in session {number} of {self._sessions} the sender could not offer any load of the flat part;"
                f" {where}",
            )
            return
        levels = [median(values) for values in of_each]
        inside = holding.low is not None and holding.high is not None
        if inside and low <= (holding.low or 0) and (holding.high or 0) <= high:
            decision: Decision = "holds"
            agree = all(low <= level <= high for level in levels)
        elif refuting.low is not None and refuting.low > high:
            decision, agree = "refuted", all(level > high for level in levels)
        elif refuting.high is not None and refuting.high < low:
            decision, agree = "refuted", all(level < low for level in levels)
        else:
            text = f"the samples do not show on which side of the band its level lies; {where}"
            self._end("inconclusive", "too close to call", text)
            return
        if not agree:
            seen = ", ".join(f"{level:.4g}" for level in levels)
            self._end("inconclusive", "sessions disagree", f"the sessions disagree: {seen}")
            return
        side = "inside" if decision == "holds" else "outside"
        self._end(decision, "", f"{where}; the level is shown {side} the band")

    @property
    def state(self) -> State:
        """The current state; the level and its interval are known once sampling has ended."""
        curve, taken = self.curve, len(self._samples) + sum(self.short.values())
        planned = self._points * self._each * self._sessions
        shown = curve is not None and curve.shape in ("plateau", "falls")
        low, high = self._errors
        return State(
            decided=self.decided,
            decision=self.decision,
            reason=self._why if self.decided else count(taken, "sample"),
            estimate=curve.level.estimate if curve and shown else None,
            low=curve.level.low if curve and shown else None,
            high=curve.level.high if curve and shown else None,
            confidence=1 - low - high,
            samples=taken,
            forecast=planned,
            cause=self.cause,
            forecast_at_best=planned,
        )

    @property
    def _errors(self) -> tuple[float, float]:
        """The errors of the interval's ends, as for `LimitRule.near`."""
        each = _DESCRIBED if self._value is None else max(self._alpha / 2, self._beta)
        return each, each
