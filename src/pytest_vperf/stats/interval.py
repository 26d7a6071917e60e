"""Confidence intervals for one figure of a sample: two one-sided bounds, each with its own error.

An interval is given by the errors of its ends: the probability that the true figure lies below
``low`` is at most ``low_error``, that it lies above ``high`` at most ``high_error``.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

if TYPE_CHECKING:
    from collections.abc import Sequence

Statistic = Literal["mean", "median"]


@dataclass(frozen=True)
class Interval:
    """An estimate between two bounds.

    Attributes:
        estimate: the figure of the sample.
        low: lower bound; ``None`` where so few values give none at this error.
        high: upper bound; likewise.
    """

    estimate: float
    low: float | None
    high: float | None


def interval(
    statistic: Statistic, values: Sequence[float], low_error: float, high_error: float
) -> Interval:
    """The interval of a statistic.

    Args:
        statistic: ``mean`` or ``median``.
        values: at least two, finite.
        low_error: chance that the truth is below ``low``, between 0 and 0.5.
        high_error: chance that it is above ``high``, likewise.
    """
    make = mean_interval if statistic == "mean" else median_interval
    return make(values, low_error, high_error)


def mean_interval(values: Sequence[float], low_error: float, high_error: float) -> Interval:
    """Student's interval for the mean (Student 1908): exact for normal noise, close for mild skew.

    Identical values give an interval of no width.
    """
    mean = _mean(values)
    error = standard_error(values)
    return Interval(
        mean,
        mean - student_quantile(1 - low_error, len(values) - 1) * error,
        mean + student_quantile(1 - high_error, len(values) - 1) * error,
    )


def median_interval(values: Sequence[float], low_error: float, high_error: float) -> Interval:
    """The interval for the median between two order statistics: exact for any continuous law.

    The number of values below the median is binomial (n, 1/2), so the k-th smallest is above the
    median with probability P(B <= k - 1) (David and Nagaraja, Order Statistics, 7.1).
    """
    ordered = sorted(values)
    size = len(ordered)
    left, right = ordered[(size - 1) // 2], ordered[size // 2]
    below, above = _order_statistic(size, low_error), _order_statistic(size, high_error)
    return Interval(
        left + (right - left) / 2,
        ordered[below - 1] if below else None,
        ordered[size - above] if above else None,
    )


def _order_statistic(size: int, error: float) -> int:
    """The largest k for which P(Binomial(size, 1/2) <= k - 1) <= error; 0 where there is none."""
    total, rank = 0.0, 0
    while rank < size:
        total += math.comb(size, rank) / 2**size
        if total > error:
            break
        rank += 1
    return rank


def standard_error(values: Sequence[float]) -> float:
    """The standard error of the mean; 0 for identical values, exactly."""
    mean = _mean(values)
    widest = max(abs(value - mean) for value in values)
    if min(values) == max(values) or widest == 0:
        return 0.0
    # Scaled by the largest deviation: squares of very small or large values leave a float's range.
    squares = math.fsum(((value - mean) / widest) ** 2 for value in values)
    return widest * math.sqrt(squares / (len(values) - 1) / len(values))


def student_quantile(probability: float, degrees: int) -> float:
    """The quantile of Student's t."""
    from scipy.special import stdtrit

    return float(stdtrit(degrees, probability))


def _mean(values: Sequence[float]) -> float:
    if min(values) == max(values):
        return values[0]  # a sum of equal numbers, divided, may be off in the last digit
    return math.fsum(value / len(values) for value in values)
