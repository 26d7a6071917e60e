"""How evenly targets that run the same work at once share a host, which were left behind, and what one more costs.

Sources: R. Jain, D. Chiu, W. Hawe, "A Quantitative Measure of Fairness and Discrimination for Resource Allocation in
Shared Computer Systems", DEC-TR-301, 1984, for the index; J. W. Tukey, "Exploratory Data Analysis", 1977, section 2E,
for the fences.

The cost of one more target is the slope, with its interval, of readings taken while their number grew. What a host
has lost to n machines is a sum: each adds its own share, so any excess of one stays in all later readings. The errors
of such a series are those of a random walk, plus whatever other processes take and give back meanwhile. An interval
that assumes independent readings (least squares, and Sen's own, 1968) is then far too narrow. So the series is cut
into blocks that share no reading. Each block has its own slope, and these are independent under both kinds of errors:

- the slope of a block is the median of the slopes of all its pairs of readings (Theil 1950; Sen, JASA 63, 1968),
  which a single bad reading does not move;
- the estimate is the median of the blocks' slopes, as in the median of means (Nemirovsky and Yudin 1983; Lugosi and
  Mendelson, Foundations of Computational Mathematics 19, 2019): memory that another process takes once, and keeps,
  spoils only one;
- the interval lies between two of the sorted slopes, and assumes only that they have a common median
  (David and Nagaraja, Order Statistics, 7.1).
"""

from __future__ import annotations

import math
import statistics
from itertools import combinations, pairwise
from typing import TYPE_CHECKING, Literal

from pytest_vperf.stats.evidence import Interval, quantile_interval, sample_quantile
from pytest_vperf.stats.rule import check_error, check_number, check_positive

if TYPE_CHECKING:
    from collections.abc import Sequence


#: The most blocks: with more, blocks are shorter, and the noise of a reading weighs more.
_BLOCKS = 12
#: The fewest readings in a block.
_LEAST = 2


def growth(numbers: Sequence[float], values: Sequence[float], error: float = 0.05) -> Interval:
    """The cost of one more.

    Args:
        numbers: how many there were at each reading, in ascending order.
        values: the readings, as many, in the unit of the result.
        error: chance that the truth lies outside of the interval.

    Returns:
        The slope with its interval. There are no bounds if the readings make too few blocks, fewer than six at an
        error of 0.05: so few slopes exclude nothing at that level.

    Raises:
        ValueError: there are fewer than two readings, not as many values, or the numbers do not ascend.
        TypeError: something is not a number.
    """
    check_error("the error", error)
    rising = [check_number("a number", number) for number in numbers]
    read = [check_number("a value", value) for value in values]
    if len(rising) != len(read) or len(rising) < _LEAST:
        raise ValueError(f"{len(rising)} numbers and {len(read)} values: no slope follows")
    if any(later <= earlier for earlier, later in pairwise(rising)):
        raise ValueError("the numbers do not rise")
    count = max(1, min(len(rising) // _LEAST, _BLOCKS))
    edges = [len(rising) * block // count for block in range(count + 1)]
    slopes = [theil_sen(rising[begin:end], read[begin:end]) for begin, end in pairwise(edges)]
    return quantile_interval(slopes, 0.5, error / 2, error / 2)


def theil_sen(numbers: Sequence[float], values: Sequence[float]) -> float:
    """The median of the slopes between all pairs of readings.

    Args:
        numbers: in ascending order.
        values: as many, at least two.
    """
    slopes = [
        (values[later] - values[earlier]) / (numbers[later] - numbers[earlier])
        for earlier, later in combinations(range(len(numbers)), 2)
    ]
    return sample_quantile(sorted(slopes), 0.5)


#: Tukey's inner fences are this many interquartile ranges from the quartiles.
FENCE = 1.5
#: Fewer values cannot show which one is far from the others: the quartiles of three are the values themselves.
FEWEST = 4


def jain_index(shares: Sequence[float]) -> float:
    """Jain's index of fairness, ``(Σx)² / (n·Σx²)``: 1 if all have the same, 1/n if one has everything.

    It has no unit and does not depend on scale. If ``k`` of ``n`` share evenly and the others have nothing, it is
    k/n.

    Args:
        shares: what each had, e.g. its rate of work. At least one, none negative, not all 0.

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
    ]  # squares of extreme values would overflow or vanish
    index = math.fsum(parts) ** 2 / (len(parts) * math.fsum(part * part for part in parts))
    return min(1.0, max(1 / len(parts), index))


def stragglers(
    figures: Sequence[float], *, direction: Literal["lower", "higher"]
) -> tuple[int, ...]:
    """Which ones were left behind: beyond Tukey's inner fence on the bad side, in logarithms.

    Times are skewed, and a rate is the reciprocal of a time: in logarithms both give the same answer.

    Args:
        figures: one of each, e.g. its time; all positive.
        direction: which direction is better.

    Returns:
        Their indices in ``figures``; none if there are fewer than `FEWEST`.

    Raises:
        ValueError: a figure is not positive or not finite.
        TypeError: one is no number.
    """
    sign = 1 if direction == "lower" else -1
    badness = [sign * math.log(check_positive("a figure", each)) for each in figures]
    if len(badness) < FEWEST:
        return ()
    low, _, high = statistics.quantiles(badness, n=4, method="inclusive")
    fence = high + FENCE * (high - low)
    return tuple(place for place, value in enumerate(badness) if value > fence)


def worst_over_median(figures: Sequence[float], *, direction: Literal["lower", "higher"]) -> float:
    """How many times worse the worst is than the median: at least 1.

    For times, the longest over the median; for rates, the median over the smallest.

    Raises:
        ValueError: there is none, or a figure is not positive or not finite.
        TypeError: one is no number.
    """
    values = [check_positive("a figure", each) for each in figures]
    if not values:
        raise ValueError("there are no figures")
    middle = statistics.median(values)
    return max(values) / middle if direction == "lower" else middle / min(values)
