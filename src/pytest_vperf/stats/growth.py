"""What one further of something costs, from a figure that was read as their number grew: a slope with its interval.

What a host has lost to n machines is a sum: each one adds its own share, so what one of them takes too much stays in
all later readings. The errors of such a series are those of a random walk, and added to them is what others on the
host take and give back meanwhile. An interval that believes the readings to be independent (that of least squares,
and Sen's own, 1968) is then far too narrow. So the series is cut into blocks that share no reading. Each block has a
slope of its own, and these are independent under both kinds of errors:

- the slope of a block is the median of the slopes of all its pairs of readings (Theil 1950; Sen, JASA 63, 1968),
  which a reading that is off does not move;
- the estimate is the median of the blocks' slopes, as in the median of means (Nemirovsky and Yudin 1983; Lugosi and
  Mendelson, Foundations of Computational Mathematics 19, 2019): what somebody else takes once, and keeps, spoils one;
- the interval lies between two of the blocks' slopes in order of size, and needs nothing of their law but one median
  (David and Nagaraja, Order Statistics, 7.1).
"""

from __future__ import annotations

from itertools import combinations, pairwise
from typing import TYPE_CHECKING

from pytest_vperf.stats.interval import Interval, quantile_interval, sample_quantile
from pytest_vperf.stats.plain import check_error, check_number

if TYPE_CHECKING:
    from collections.abc import Sequence

#: Blocks at most: with more of them the noise of a reading, which the length of a block divides, counts for more.
_BLOCKS = 12
#: Readings that a block has at least.
_LEAST = 2


def growth(numbers: Sequence[float], values: Sequence[float], error: float = 0.05) -> Interval:
    """What one further costs.

    Args:
        numbers: how many there were at each reading, rising.
        values: what was read, as many; the unit is the answer's.
        error: chance that the truth lies outside of the interval.

    Returns:
        The slope with its interval. There are no bounds where the readings make too few blocks, for an error of 0.05
        fewer than six: so few slopes exclude nothing at that level.

    Raises:
        ValueError: there are fewer than two readings, not as many values, or the numbers do not rise.
        TypeError: something is no number.
    """
    check_error("the error", error)
    rising = [check_number("a number", number) for number in numbers]
    read = [check_number("a value", value) for value in values]
    if len(rising) != len(read) or len(rising) < _LEAST:
        raise ValueError(f"{len(rising)} numbers and {len(read)} values: no slope can be had")
    if any(later <= earlier for earlier, later in pairwise(rising)):
        raise ValueError("the numbers do not rise")
    count = max(1, min(len(rising) // _LEAST, _BLOCKS))
    edges = [len(rising) * block // count for block in range(count + 1)]
    slopes = [theil_sen(rising[begin:end], read[begin:end]) for begin, end in pairwise(edges)]
    return quantile_interval(slopes, 0.5, error / 2, error / 2)


def theil_sen(numbers: Sequence[float], values: Sequence[float]) -> float:
    """The median of the slopes between all pairs of readings.

    Args:
        numbers: rising.
        values: as many, at least two.
    """
    slopes = [
        (values[later] - values[earlier]) / (numbers[later] - numbers[earlier])
        for earlier, later in combinations(range(len(numbers)), 2)
    ]
    return sample_quantile(sorted(slopes), 0.5)
