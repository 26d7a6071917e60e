"""What a sweep of loads shows: a line that becomes flat, one that still rises, or one that falls again.

The model has two phases and is continuous: log y = level - slope * max(0, knee - log x) (Hudson 1966, Fitting
segmented curves whose join points have to be estimated; Hinkley 1971, Inference in two-phase regression). In
logarithms a line through the origin has the slope 1, and noise that grows with the value is the same everywhere. The
slope is free where at least two loads lie below the knee; one alone does not tell it from the knee, and it is 1 then.

The knee is found by least squares of the medians of the loads, over a grid of places between them; the knees whose
sum of squares is not significantly greater are its interval (the profile of the likelihood, as in Hinkley, section
3). What is said of the flat part then holds for each of these knees. Its height is the median of its samples,
between order statistics, which no outlier moves far. Whether it is flat is asked of the rank correlation (Sen 1968,
Estimates of the regression coefficient based on Kendall's tau): the share by which y still grows with x, d log y /
d log x, is 1 of a line through the origin and 0 of a plateau.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from statistics import NormalDist, median
from typing import TYPE_CHECKING, Literal

from pytest_vperf.stats.interval import Interval, quantile_interval, sample_quantile

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

Shape = Literal["plateau", "rises", "falls", "undecided"]

#: Greatest growth of what is called flat: of twice the load 7 % more comes through.
FLAT = 0.1
#: Loads that a flat part has at least: two would be called flat by two equal errors.
LEAST_FLAT = 3
#: Places between two loads that the knee is tried at.
_PLACES = 12
#: Of the chi-squared law with one degree of freedom, with 99 %.
_SIGNIFICANT = 6.63
#: Variance of a median over that of a mean, for normal noise (pi / 2), and the normal law's standard deviation over
#: its median absolute deviation (Kendall and Stuart, The Advanced Theory of Statistics, 10.11).
_MEDIAN_FACTOR, _MAD_FACTOR = math.pi / 2, 1.4826


@dataclass(frozen=True)
class Curve:
    """What the samples of a sweep show.

    Attributes:
        shape: ``plateau``; ``rises``: up to the greatest load; ``falls``: after it had risen; ``undecided``: the
            samples do not tell.
        level: of the flat part, or, where it falls, the greatest that any load reached; with its interval, whose ends
            are ``None`` where the samples give none.
        knee: the load at which the line reaches the level; ``None`` where the least load is beyond it already.
        knee_low: the least knee that the samples do not reject; ``None`` likewise.
        knee_high: the greatest.
        growth: of the flat part, d log y / d log x, with its interval.
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
        samples: of each load what came through; loads and samples are positive, at least three loads.
        low_error: chance that the level is below its interval, between 0 and 0.5.
        high_error: chance that it is above, likewise.
        shape_error: chance that the shape is named wrongly, likewise.

    Raises:
        ValueError: there are fewer than three loads, or one without samples.
    """
    loads = sorted(samples)
    if len(loads) < LEAST_FLAT or not all(samples[load] for load in loads):
        raise ValueError(f"a curve needs samples of at least {LEAST_FLAT} loads")
    accepted, best = _knees([math.log(load) for load in loads], samples)
    # Each set of loads that may be the flat part; the one of the best knee decides about the shape.
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
    """The logarithms of all knees that are not rejected, and of the best one."""
    groups = [[math.log(value) for value in samples[load]] for load in sorted(samples)]
    heights = [median(group) for group in groups]
    spread = _spread(groups)
    variances = [_MEDIAN_FACTOR * spread**2 / len(group) for group in groups]
    tried = {}
    for left, right in zip(
        [places[0], *places], places[: len(places) - LEAST_FLAT + 1], strict=False
    ):
        for step in range(1, _PLACES + 1):
            # The last one is the load itself, which a sum may miss by a bit, and the flat part its first load then.
            knee = right if step == _PLACES else left + (right - left) * step / _PLACES
            tried[knee] = _misfit(knee, places, heights, variances)
    best = min(tried, key=lambda knee: (tried[knee], knee))
    limit = tried[best] + _SIGNIFICANT
    return [knee for knee, misfit in tried.items() if misfit <= limit], best


def _spread(groups: Sequence[Sequence[float]]) -> float:
    """The robust standard deviation of samples around the median of their load; a millionth at least."""
    off = [abs(value - median(group)) for group in groups if len(group) > 1 for value in group]
    if not off:
        return 0.01  # one sample of each load tells nothing of the noise
    # A median of few is nearer to them than the truth is.
    size = len(off) / sum(len(group) > 1 for group in groups)
    return max(1e-6, _MAD_FACTOR * median(off) * math.sqrt(size / (size - 1)))


def _misfit(
    knee: float, places: Sequence[float], heights: Sequence[float], variances: Sequence[float]
) -> float:
    """The least weighted sum of squares with the knee at a place."""
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
        error: chance that the truth lies below, and that it lies above the interval, each.
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
    """How much more comes of twice the load, in words."""
    return "any share" if growth is None else f"{100 * (2**growth - 1):.3g} %"


def where_flat(curve: Curve) -> str:
    """Where a plateau is, in words."""
    flat = f"flat over {len(curve.flat)} loads, to {max(curve.flat):.6g}"
    if curve.knee is None:
        return f"{flat}; already at the least one, {min(curve.flat):.6g}"
    between = ""
    if curve.knee_low is not None and curve.knee_high is not None:
        between = f" [{curve.knee_low:.6g}, {curve.knee_high:.6g}]"
    return f"{flat}, from a knee at {curve.knee:.6g}{between} on"
