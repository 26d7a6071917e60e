"""The one interval that every benchmark here prints."""

from __future__ import annotations

import statistics
from typing import TYPE_CHECKING

from scipy.stats import binom

if TYPE_CHECKING:
    from collections.abc import Sequence


def median_interval(values: Sequence[float], level: float = 0.95) -> tuple[float, float, float]:
    """The median with an interval of order statistics that holds it with at least ``level``.

    Exact for any law with a continuous distribution: the number of values below the median is binomial
    (Conover, Practical Nonparametric Statistics, section 3.2). Fewer than 6 values: their whole range.

    Returns:
        low, median, high.
    """
    ordered = sorted(values)
    # The largest k with P(fewer than k values below the median) <= (1 - level)/2: drop k - 1 on each side.
    dropped = 0
    while (
        dropped + 1 < len(ordered) / 2 and binom.cdf(dropped, len(ordered), 0.5) <= (1 - level) / 2
    ):
        dropped += 1
    dropped = max(0, dropped - 1)
    return ordered[dropped], statistics.median(ordered), ordered[-1 - dropped]
