"""How evenly several shared what they had, and who was left behind: of targets that run the same work at once.

Sources: R. Jain, D. Chiu, W. Hawe, "A Quantitative Measure of Fairness and Discrimination for Resource Allocation in
Shared Computer Systems", DEC-TR-301, 1984, for the index; J. W. Tukey, "Exploratory Data Analysis", 1977, section 2E,
for the fences.
"""

from __future__ import annotations

import math
import statistics
from typing import TYPE_CHECKING, Literal

from pytest_vperf.stats.plain import check_number, check_positive

if TYPE_CHECKING:
    from collections.abc import Sequence

#: Tukey's inner fences are so many quartile ranges from the quartiles.
FENCE = 1.5
#: Of fewer values nobody can say which one is far from the others: quartiles of three are the three.
FEWEST = 4


def jain_index(shares: Sequence[float]) -> float:
    """Jain's index of fairness, ``(Σx)² / (n·Σx²)``: 1 where all have the same, 1/n where one has everything.

    It has no unit, and does not change where all shares grow alike. ``k`` of ``n`` that share evenly while the others
    have nothing make k/n.

    Args:
        shares: what each had, e.g. its rate of work; more is more. At least one, none negative, not all 0.

    Raises:
        ValueError: there is none, one is negative or not finite, or all are 0.
        TypeError: one is no number.
    """
    values = [check_number("a share", each) for each in shares]
    if not values or min(values) < 0 or max(values) == 0:
        raise ValueError("shares are numbers from 0 on, of which one at least is not 0")
    greatest = max(values)
    parts = [
        value / greatest for value in values
    ]  # squares of what is very large or small would not be finite
    index = math.fsum(parts) ** 2 / (len(parts) * math.fsum(part * part for part in parts))
    return min(1.0, max(1 / len(parts), index))


def stragglers(figures: Sequence[float], *, better: Literal["lower", "higher"]) -> tuple[int, ...]:
    """Which ones were left behind: beyond Tukey's inner fence on the bad side, of the logarithms.

    Of logarithms, since times are skewed and a rate is one over a time: the same ones are left behind by either.

    Args:
        figures: of each, e.g. its time; all positive.
        better: which direction is the good one.

    Returns:
        Their places in ``figures``; none where there are fewer than `FEWEST`.

    Raises:
        ValueError: a figure is not positive or not finite.
        TypeError: one is no number.
    """
    sign = 1 if better == "lower" else -1
    badness = [sign * math.log(check_positive("a figure", each)) for each in figures]
    if len(badness) < FEWEST:
        return ()
    low, _, high = statistics.quantiles(badness, n=4, method="inclusive")
    fence = high + FENCE * (high - low)
    return tuple(place for place, value in enumerate(badness) if value > fence)


def worst_over_median(figures: Sequence[float], *, better: Literal["lower", "higher"]) -> float:
    """How many times worse the worst one is than the middle one: at least 1.

    Of times the longest over the median; of rates the median over the least.

    Raises:
        ValueError: there is none, or a figure is not positive or not finite.
        TypeError: one is no number.
    """
    values = [check_positive("a figure", each) for each in figures]
    if not values:
        raise ValueError("there are no figures")
    middle = statistics.median(values)
    return max(values) / middle if better == "lower" else middle / min(values)
