"""Evidence against "the ratio of two arms is at most (at least) a threshold", valid at every stopping time.

The only randomness used is our own coin, which decides which arm of a pair goes first. Say arm a is exactly ``shift``
larger than b (in logarithms), and the noise depends only on the moment of the sample. With ``shift`` subtracted from
a's value, the two values of a pair are then the same whichever way the coin fell, so they reveal nothing about the
coin. A gambler who bets on it at fair odds, on "a was second" when the second value is larger, wins nothing in the
long run. One who grows rich has shown that a is more than ``shift`` larger.

In numbers: with a stake s(v), any increasing function of "second larger", a pair multiplies the capital by exp(±s) /
cosh(s), plus if the bet was right. Its mean over the coin is 1, so the capital is a
non-negative martingale and P(it ever reaches 1/alpha) <= alpha (Ville 1939). If a is *less* than ``shift`` larger,
every factor is smaller than it would have been, because it grows with a's values: the bound holds for all of "a is at
most ``shift`` larger", at every stopping time, for noise of any distribution, drift and autocorrelation, even if the
second of a pair is always slower.

How quickly the capital grows depends on the stakes. Several gamblers play with different stakes, and the mean of
their capitals is again such a martingale (Shafer 2021, Testing by betting, section 3; Waudby-Smith and Ramdas 2024,
Estimating means of bounded random variables by betting).

A new value is ranked among those of recent pairs, which also teach the noise's level and scale, and the effect of the
order within a pair. A pair is judged only by what *earlier* pairs taught. So any estimate is allowed: a wrong one
leaves the judgement of the next pair valid, and only slows it down.

Evidence about a quantile uses only the signs of "sample minus limit".

Say the q-quantile is exactly the limit: a sample lies above it with probability 1 - q. A gambler who expects a
probability p instead multiplies his capital by p / (1 - q) for a sample above, and by (1 - p) / q for one at or
below. The mean of that is 1, so the capital is a martingale and reaches 1/alpha with probability at most alpha (Ville
1939); it is the likelihood ratio of Wald's sequential test (Wald 1945) for a coin. For the median the factors are 1 ±
k. As for pairs, several gamblers play, and their mean capital counts.

The size of a sample is ignored: a thousand times the median weighs as much as just above it.

The assumption is that each sample, whatever came before, is above the limit with at least that probability. Samples
close in time share a level and violate it, which is why a verdict needs several sessions.

Intervals of a quantile lie between two order statistics, for a number of samples fixed in advance, or for any. The
errors of the two ends define an interval: the true figure lies below ``low`` with a probability of at most
``low_error``, and above ``high`` with at most ``high_error``.
"""

from __future__ import annotations

import math
from bisect import bisect_left, bisect_right, insort
from collections import deque
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Sequence


class Neighbourhood:
    """The last values of a stream, sorted."""

    def __init__(self, pairs: int) -> None:
        """Keep the values of the last ``pairs`` pairs."""
        self._room = 2 * pairs
        self._recent: deque[float] = deque()
        self._sorted: list[float] = []

    def add(self, first: float, second: float) -> None:
        """Add the two values of a pair, dropping the oldest two once full."""
        for value in (first, second):
            self._recent.append(value)
            insort(self._sorted, value)
        while len(self._recent) > self._room:
            del self._sorted[bisect_left(self._sorted, self._recent.popleft())]

    def below(self, value: float) -> float:
        """How many of the values are smaller; equal values count half."""
        ordered = self._sorted
        left = bisect_left(ordered, value)
        if left < len(ordered) and ordered[left] == value:
            return (left + bisect_right(ordered, value, lo=left)) / 2
        return left


#: Numbers of pairs whose values a new value is ranked among. The few follow a moving level (a burst, a clock step),
#: the many show the noise's shape; the mean of both scores beat either one on every kind of noise tried.
_FEW, _MANY = 5, 32
#: Number of recent pairs used to estimate the scale, and the fewest needed.
_SCALE_FROM, _SCALE_AT_LEAST = 32, 4
#: Pairs in each order before the effect of being second is corrected; its estimate is shrunk by n/(n + 5).
_LAG_AT_LEAST, _LAG_SHRINKAGE = 5, 5
#: Decimals of a logarithm that are kept: far fewer than a float's, far more than any clock's.
_DIGITS = 12
#: The weight of the plain difference relative to the ranks: ranks alone hardly show how far above the others a value
#: is.
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
    """What the pairs so far teach about the noise.

    Attributes:
        differences: log(a / b) of every pair, sorted, corrected for the order within the pair.
        centre: their median; 0 before the first.
        scale: a robust standard deviation of the latest ones; ``None`` while there are too few.
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

        The sum of rank scores and the bounded difference. The rank score of a value is log(u), with u its relative
        rank among the values before: the best score for noise with a sharp lower and a long upper end, as is typical
        of times (Savage scores; Hájek, Šidák and Sen, Theory of Rank Tests, 3.1, on the extreme-value distribution).

        The score grows with the second value and falls with the first, whatever came before. So evidence for
        "a is larger" can only grow with a's values.
        """
        first, second = pair.first, pair.second - self._lag
        if pair.a_second:
            second -= shift
        else:
            first -= shift
        # Subtracting the shift leaves a rounding error, which must not break a tie.
        first, second = round(first, _DIGITS), round(second, _DIGITS)
        # Each is ranked among the earlier values and the other one; 1/2 keeps the smallest from rank 0.
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
        # Shift arm a to b's level, so that the neighbourhood holds only noise.
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
            self.scale = max(_normal_scale(ordered), 1e-9)  # a coarse clock may show no spread

    def _learn_lag(self, pair: Pair) -> None:
        insort(self._lags[pair.a_second], pair.second - pair.first)
        count = min(len(lags) for lags in self._lags)
        if count >= _LAG_AT_LEAST:
            both = median(self._lags[0]) + median(self._lags[1])  # the arms' difference cancels
            self._lag = both / 2 * count / (count + _LAG_SHRINKAGE)


def median(ordered: Sequence[float]) -> float:
    """The median of sorted values."""
    middle = len(ordered) // 2
    if len(ordered) % 2:
        return ordered[middle]
    return (ordered[middle - 1] + ordered[middle]) / 2


def _normal_scale(ordered: Sequence[float]) -> float:
    """The interquartile range over 1.349, its value for the standard normal distribution."""
    size = len(ordered)
    if size < _SCALE_AT_LEAST:
        return 0.0
    return (ordered[3 * size // 4] - ordered[size // 4]) / 1.349


#: The gamblers' probabilities: how far from that of the limit, as a share of the way to certainty.
_BOLDNESS = (0.3, 0.6, 0.85, 0.99)


class SignEvidence:
    """Evidence that a quantile lies above, or below, a limit.

    Attributes:
        log: logarithm of the mean capital.
    """

    def __init__(self, quantile: float, direction: Literal["above", "below"]) -> None:
        """Begin without evidence.

        Args:
            quantile: between 0 and 1: 0.5 is the median.
            direction: the claim to collect evidence for.
        """
        over = 1 - quantile
        if direction == "above":
            chances = [over + boldness * quantile for boldness in _BOLDNESS]
        else:
            chances = [over * (1 - boldness) for boldness in _BOLDNESS]
        self._over = [math.log(chance / over) for chance in chances]
        self._under = [math.log((1 - chance) / quantile) for chance in chances]
        self._seen_over = self._seen_under = 0
        self.log = 0.0

    def add(self, over: bool) -> None:
        """Add a sample's sign: whether it lies above the limit."""
        if over:
            self._seen_over += 1
        else:
            self._seen_under += 1
        self.log = self.after(self._seen_over, self._seen_under)

    def after(self, over: float, under: float) -> float:
        """The value of `log` after this many samples above the limit and at or below it, in any order."""
        logs = [
            over * step_over + under * step_under
            for step_over, step_under in zip(self._over, self._under, strict=True)
        ]
        best = max(logs)
        return best + math.log(sum(math.exp(log - best) for log in logs) / len(logs))


#: Greater stakes hardly win more per pair (at most log 2), and lose much.
_GREATEST_STAKE = 3.0
_LOG_2 = math.log(2.0)


@dataclass(frozen=True)
class Gamblers:
    """The gamblers who bet on one direction: their stakes, and their shares of the initial capital.

    Attributes:
        by_effect: multiples of effect / scale: best if the true distance is about that multiple of the effect that
        matters.
        plain: stakes independent of both: for far larger distances, and before the scale is known.
        shares: their shares of the capital, in the order by_effect, plain; the sum is 1.
    """

    by_effect: tuple[float, ...]
    plain: tuple[float, ...]
    shares: tuple[float, ...]


#: Against the threshold: the truth may lie any distance beyond it.
AGAINST = Gamblers(by_effect=(0.9,), plain=(0.2, 0.6, 1.6), shares=(0.35, 0.2, 0.25, 0.2))
#: For it: an identical candidate lies exactly the tolerance away, so most stakes expect that.
FOR = Gamblers(by_effect=(0.4, 0.85), plain=(0.3, 1.0), shares=(0.4, 0.4, 0.1, 0.1))


class Capital:
    """The capital of the gamblers of one direction.

    Attributes:
        log: logarithm of the mean capital.
        peak: the maximum of ``log`` so far.
    """

    def __init__(self, gamblers: Gamblers, effect: float) -> None:
        self.log = 0.0
        self.peak = 0.0
        self._by_effect = [multiple * effect for multiple in gamblers.by_effect]
        self._plain = gamblers.plain
        self._logs = [math.log(share) for share in gamblers.shares]

    def bet(self, score: float, scale: float | None) -> None:
        """Bet on a pair; a positive score is a win, its size the confidence of the bet."""
        logs = self._logs
        size = abs(score)
        index = 0
        for distance in self._by_effect:
            if scale is not None:
                stake = distance / scale
                logs[index] += _growth(min(stake, _GREATEST_STAKE), score, size)
            index += 1
        for stake in self._plain:
            logs[index] += _growth(stake, score, size)
            index += 1
        best = max(logs)
        self.log = best + math.log(sum([math.exp(log - best) for log in logs]))
        if self.log > self.peak:
            self.peak = self.log


def _growth(stake: float, score: float, size: float) -> float:
    """log(exp(x) / cosh(x)) for x = stake * score."""
    if score >= 0:
        return _LOG_2 - math.log1p(math.exp(-2 * stake * size))
    return _LOG_2 - 2 * stake * size - math.log1p(math.exp(-2 * stake * size))


class Evidence:
    """Evidence for and against "arm a is more than ``shift`` larger than b", pair by pair.

    Attributes:
        shift: logarithm of the ratio in question.
        above: the capital of those who bet that a/b is larger.
        below: the capital of those who bet that it is smaller.
        good: the side on which the claim holds.
    """

    def __init__(
        self, shift: float, effect: float, good: Literal["below", "above"] = "below"
    ) -> None:
        """Begin without evidence.

        Args:
            shift: log of the ratio in question.
            effect: the distance from it that matters, in logarithms: the tolerance; more than 0.
            good: the side on which the claim holds.
        """
        self.shift = shift
        self.good = good
        self.above = Capital(AGAINST if good == "below" else FOR, effect)
        self.below = Capital(FOR if good == "below" else AGAINST, effect)

    def add(self, pair: Pair, background: Background) -> None:
        """Bet on a pair, by what earlier pairs taught."""
        score = background.score(pair, self.shift)
        won = score if pair.a_second else -score
        self.above.bet(won, background.scale)
        self.below.bet(-won, background.scale)


@dataclass(frozen=True)
class Interval:
    """An estimate between two bounds.

    Attributes:
        estimate: the figure of the sample.
        low: lower bound; ``None`` if the values are too few for one at this error.
        high: upper bound; likewise.
    """

    estimate: float
    low: float | None
    high: float | None


def quantile_interval(
    values: Sequence[float], quantile: float, low_error: float, high_error: float
) -> Interval:
    """The interval for a quantile, exact for independent values of any continuous distribution.

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
    """The interval for a quantile, valid whenever and for whatever reason sampling stopped.

    It holds the values that the evidence does not reject as the quantile.

    Args:
        ordered: at least one value, finite, sorted.
        quantile: between 0 and 1.
        low_error: chance that the truth is below ``low``, between 0 and 0.5.
        high_error: chance that it is above ``high``, likewise.
    """
    size = len(ordered)
    above, below = SignEvidence(quantile, "above"), SignEvidence(quantile, "below")

    def under(evidence: SignEvidence, error: float, direction: int) -> int:
        """How many of the outermost values are rejected, counted inwards from one end, plus one if not all are."""
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
    """The quantile of sorted values, interpolated (Hyndman and Fan 1996, definition 7)."""
    place = (len(ordered) - 1) * quantile
    left = math.floor(place)
    right = min(left + 1, len(ordered) - 1)
    share = place - left
    if share == 0 or ordered[left] == ordered[right]:
        return ordered[left]
    return ordered[left] * (1 - share) + ordered[right] * share


def _fewest(size: int, chance: float, error: float) -> int:
    """The largest k for which P(Binomial(size, chance) <= k - 1) <= error; 0 if there is none."""
    total, rank = 0.0, 0
    log_odds = math.log(chance) - math.log1p(-chance)
    log = size * math.log1p(-chance)  # log of the probability of 0
    while rank < size:
        total += math.exp(log)
        if total > error:
            break
        log += math.log(size - rank) - math.log(rank + 1) + log_odds
        rank += 1
    return rank
