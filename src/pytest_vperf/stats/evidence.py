"""Evidence against "the ratio of two arms is at most (at least) so much", valid at every moment.

The only randomness used is our own coin: which arm of a pair goes first. Say arm a is exactly ``shift`` larger than
b (in logarithms) and the noise belongs to the moments at which the samples are taken. With ``shift`` taken off a's
value, the two values of a pair are then the same whichever way the coin fell, so the coin cannot be guessed from
them. A gambler who bets on it at fair odds, "a was second" where the second value is the larger one, wins nothing in
the long run. One who grows rich has shown that a is more than ``shift`` larger.

In numbers: with a stake s(v), any increasing function of "second larger", a pair multiplies the capital by
exp(±s) / cosh(s), plus where the coin fell as the bet says. Its mean over the coin is 1, so the capital is a
non-negative martingale and P(it ever reaches 1/alpha) <= alpha (Ville 1939). If a is *less* than ``shift`` larger,
every factor is smaller than it would have been, because it grows with a's values: the bound holds for all of
"a is at most ``shift`` larger", at every stopping time, for noise of any law, drift and autocorrelation, also where
the second of a pair is always the slower one.

How quickly the capital grows depends on the stakes. Several gamblers play with stakes of their own, and the mean of
their capitals is again such a martingale (Shafer 2021, Testing by betting, section 3; Waudby-Smith and Ramdas 2024,
Estimating means of bounded random variables by betting).
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

if TYPE_CHECKING:
    from pytest_vperf.stats.background import Background, Pair

#: Stakes above this win hardly more per pair (at most log 2) and lose much.
_GREATEST_STAKE = 3.0
_LOG_2 = math.log(2.0)


@dataclass(frozen=True)
class Gamblers:
    """The stakes of those who bet on one direction, and their share of the first capital.

    Attributes:
        by_effect: multiples of effect / scale: best where the true distance is about that multiple of the effect
            that matters.
        plain: stakes that know neither: for distances far larger, and before the scale is known.
        shares: of the capital, in the order by_effect, plain; their sum is 1.
    """

    by_effect: tuple[float, ...]
    plain: tuple[float, ...]
    shares: tuple[float, ...]


#: Against the threshold: how far beyond it the truth may lie is open.
AGAINST = Gamblers(by_effect=(0.9,), plain=(0.2, 0.6, 1.6), shares=(0.35, 0.2, 0.25, 0.2))
#: For it: a candidate that differs in nothing lies just the tolerance away, so most of the stakes expect that.
FOR = Gamblers(by_effect=(0.4, 0.85), plain=(0.3, 1.0), shares=(0.4, 0.4, 0.1, 0.1))


class Capital:
    """The gamblers of one direction.

    Attributes:
        log: logarithm of the mean capital.
        peak: the greatest it ever was.
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
    """For and against "arm a is more than ``shift`` larger than b", from one pair after the other.

    Attributes:
        shift: logarithm of the ratio in question.
        above: the capital of those who bet that a/b is larger.
        below: of those who bet that it is smaller.
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
        """Judge a pair by what the pairs before it taught."""
        score = background.score(pair, self.shift)
        won = score if pair.a_second else -score
        self.above.bet(won, background.scale)
        self.below.bet(-won, background.scale)
