"""Intervals of a quantile, between two order statistics: for a number of samples fixed before, or for any.

An interval is given by the errors of its ends: the probability that the true figure lies below ``low`` is at most
``low_error``, that it lies above ``high`` at most ``high_error``.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING

from pytest_vperf.stats.evidence import SignEvidence

if TYPE_CHECKING:
    from collections.abc import Sequence


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


def quantile_interval(
    values: Sequence[float], quantile: float, low_error: float, high_error: float
) -> Interval:
    """The interval for a quantile: exact for independent values of any continuous law.

    The number of values below the q-quantile is binomial (n, q), so the k-th smallest lies above the quantile with
    probability P(B <= k - 1), and the k-th smallest below it with probability P(B >= k) (David and Nagaraja, Order
    Statistics, 7.1).

    Args:
        values: at least one, finite.
        quantile: between 0 and 1.
        low_error: chance that the truth is below ``low``, between 0 and 0.5.
        high_error: chance that it is above ``high``, likewise.
    """
    ordered = sorted(values)
    size = len(ordered)
    below = _fewest(size, quantile, low_error)
    above = _fewest(size, 1 - quantile, high_error)
    return Interval(
        sample_quantile(ordered, quantile),
        ordered[below - 1] if below else None,
        ordered[size - above] if above else None,
    )


def sequential_interval(
    ordered: Sequence[float], quantile: float, low_error: float, high_error: float
) -> Interval:
    """The interval for a quantile, valid whenever the sampling stopped and for whatever reason.

    The values that the evidence of `pytest_vperf.stats.evidence` does not reject as the quantile.

    Args:
        ordered: at least one value, finite, in order of size.
        quantile: between 0 and 1.
        low_error: chance that the truth is below ``low``, between 0 and 0.5.
        high_error: chance that it is above ``high``, likewise.
    """
    size = len(ordered)
    above, below = SignEvidence(quantile, "above"), SignEvidence(quantile, "below")

    def under(evidence: SignEvidence, error: float, direction: int) -> int:
        """How many values lie on the near side of the outermost limit that is not rejected."""
        count = 0
        while count < size:
            over = size - count if direction > 0 else count
            if evidence.after(over, size - over) < -math.log(error):
                break
            count += 1
        return count

    low, high = under(above, low_error, 1), under(below, high_error, -1)
    return Interval(
        sample_quantile(ordered, quantile),
        ordered[low - 1] if low else None,
        ordered[size - high] if high else None,
    )


def sample_quantile(ordered: Sequence[float], quantile: float) -> float:
    """The quantile of values in order of size, interpolated (Hyndman and Fan 1996, definition 7)."""
    place = (len(ordered) - 1) * quantile
    left = math.floor(place)
    right = min(left + 1, len(ordered) - 1)
    share = place - left
    if share == 0 or ordered[left] == ordered[right]:
        return ordered[left]
    return ordered[left] * (1 - share) + ordered[right] * share


def _fewest(size: int, chance: float, error: float) -> int:
    """The largest k for which P(Binomial(size, chance) <= k - 1) <= error; 0 where there is none."""
    total, rank = 0.0, 0
    log_odds = math.log(chance) - math.log1p(-chance)
    log = size * math.log1p(-chance)  # of the probability of 0
    while rank < size:
        total += math.exp(log)
        if total > error:
            break
        log += math.log(size - rank) - math.log(rank + 1) + log_odds
        rank += 1
    return rank
