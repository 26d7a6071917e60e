"""What the pairs so far teach about the noise: its level, its scale, and what the order inside a pair does.

Everything here is a function of *earlier* pairs when a new one is judged. That is what makes it free: however
wrong an estimate is, the judgement of the next pair stays valid, it only finds out more slowly.
"""

from __future__ import annotations

import math
from bisect import bisect_left, insort
from collections import deque
from typing import TYPE_CHECKING, NamedTuple

from pytest_vperf.stats.neighbourhood import Neighbourhood

if TYPE_CHECKING:
    from collections.abc import Sequence

#: Pairs whose values a new value is ranked among. The few follow a level that moves (a burst, a clock that steps),
#: the many tell the noise's shape; the mean of both scores does better than either on noise of every kind tried.
_FEW, _MANY = 5, 32
#: Pairs from which the scale is read, and how many are needed to read it.
_SCALE_FROM, _SCALE_AT_LEAST = 32, 4
#: Pairs of each order before the second of a pair is believed to be slower; the estimate is then shrunk by n/(n + 5).
_LAG_AT_LEAST, _LAG_SHRINKAGE = 5, 5
#: Decimals of a logarithm that count: far fewer than a float has, far more than any clock.
_DIGITS = 12
#: The weight of the plain difference beside the ranks: ranks alone hardly see how far above the others a value is.
_DIFFERENCE = 0.5


class Pair(NamedTuple):
    """Two neighbouring samples, as logarithms, in the order they were taken.

    Attributes:
        first: log of the first value.
        second: log of the second value.
        a_second: whether the second is of arm a.
    """

    first: float
    second: float
    a_second: bool


class Background:
    """The noise as it was in the pairs so far.

    Attributes:
        differences: log(a / b) of every pair, in order of size, what the order inside the pair does taken off.
        centre: their median; 0 before the first.
        scale: a robust standard deviation of the last of them; ``None`` while there are too few.
    """

    def __init__(self) -> None:
        self.differences: list[float] = []
        self.centre = 0.0
        self.scale: float | None = None
        self._lag = 0.0
        self._lags: tuple[list[float], list[float]] = ([], [])
        self._few = Neighbourhood(_FEW)
        self._many = Neighbourhood(_MANY)
        self._recent: deque[float] = deque()
        self._recent_sorted: list[float] = []

    @property
    def estimate(self) -> float:
        """log of the ratio a/b: the mean of the medians of both orders, so that the order itself cancels."""
        a_first, a_second = self._lags
        if not a_first or not a_second:
            return self.centre
        return (median(a_second) - median(a_first)) / 2

    @property
    def spread(self) -> float:
        """A robust standard deviation of all differences; 0 before the fourth."""
        return _normal_scale(self.differences)

    def score(self, pair: Pair, shift: float) -> float:
        """How much larger the second value of a pair is than the first, were arm a ``shift`` larger than b.

        The sum of rank scores and of the bounded difference. The rank score of a value is log(u), u its relative
        rank among the values before: the score that is best for noise with a sharp lower and a long upper end, as
        times have it (Savage scores; Hájek, Šidák and Sen, Theory of Rank Tests, 3.1, on the extreme-value law).

        The score grows with the second value and falls with the first, whatever came before. So evidence for
        "a is larger" can only grow with a's values.
        """
        first, second = pair.first, pair.second - self._lag
        if pair.a_second:
            second -= shift
        else:
            first -= shift
        # Taking off what was multiplied on leaves a rounding error, which must not make a difference of a tie.
        first, second = round(first, _DIGITS), round(second, _DIGITS)
        # Each is ranked among the values before and the other one; 1/2 keeps the smallest from rank 0.
        over = 1.0 if second > first else 0.0 if second < first else 0.5
        score = 0.0
        for near in (self._few, self._many):
            score += 0.5 * math.log(
                (near.below(second) + over + 0.5) / (near.below(first) + 1.5 - over)
            )
        if self.scale is not None:
            score += _DIFFERENCE * math.tanh((second - first) / self.scale)
        return score

    def add(self, pair: Pair) -> None:
        """Learn from a pair that was judged."""
        first, second = pair.first, pair.second - self._lag
        # Arm a is brought to b's level: the neighbourhood is to be the noise alone.
        if pair.a_second:
            self._remember(first, second - self.centre)
        else:
            self._remember(first - self.centre, second)
        difference = second - first if pair.a_second else first - second
        insort(self.differences, difference)
        self.centre = median(self.differences)
        self._learn_scale(difference)
        self._learn_lag(pair)

    def _remember(self, first: float, second: float) -> None:
        first, second = round(first, _DIGITS), round(second, _DIGITS)
        self._few.add(first, second)
        self._many.add(first, second)

    def _learn_scale(self, difference: float) -> None:
        self._recent.append(difference)
        ordered = self._recent_sorted
        insort(ordered, difference)
        if len(self._recent) > _SCALE_FROM:
            del ordered[bisect_left(ordered, self._recent.popleft())]
        if len(ordered) >= _SCALE_AT_LEAST:
            self.scale = max(
                _normal_scale(ordered), 1e-9
            )  # a clock may be too coarse for any spread

    def _learn_lag(self, pair: Pair) -> None:
        insort(self._lags[pair.a_second], pair.second - pair.first)
        count = min(len(lags) for lags in self._lags)
        if count >= _LAG_AT_LEAST:
            both = median(self._lags[0]) + median(self._lags[1])  # the arms' difference cancels
            self._lag = both / 2 * count / (count + _LAG_SHRINKAGE)


def median(ordered: Sequence[float]) -> float:
    """The median of values in order of size."""
    middle = len(ordered) // 2
    if len(ordered) % 2:
        return ordered[middle]
    return (ordered[middle - 1] + ordered[middle]) / 2


def _normal_scale(ordered: Sequence[float]) -> float:
    """The interquartile range over 1.349, that of a normal law with standard deviation 1."""
    size = len(ordered)
    if size < _SCALE_AT_LEAST:
        return 0.0
    return (ordered[3 * size // 4] - ordered[size // 4]) / 1.349
