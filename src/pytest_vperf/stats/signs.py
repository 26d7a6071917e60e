"""Evidence about a quantile, from the signs of "sample minus limit" alone.

Say the q-quantile is exactly the limit: a sample lies above it with probability 1 - q. A gambler who expects a
probability p instead multiplies his capital by p / (1 - q) for a sample above, and by (1 - p) / q for one at or
below. The mean of that is 1, so the capital is a martingale and reaches 1/alpha with probability at most alpha (Ville
1939); it is the likelihood ratio of Wald's sequential test (Wald 1945) for a coin. For the median the factors are
1 ± k. As for pairs, several gamblers play and their mean capital counts.

The samples' size is not used: one of a thousand times the median weighs as much as one just above.

What the samples must be: each, whatever came before, above the limit with at least that probability. Samples close
in time share the level of their moment and are not so, which is why a verdict needs several sessions.
"""

from __future__ import annotations

import math
from typing import Literal

#: How far the gamblers' probabilities lie from that of the limit, as a share of the way to certainty.
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
            direction: what is to be shown.
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
        """Take a sample's sign: whether it lies above the limit."""
        if over:
            self._seen_over += 1
        else:
            self._seen_under += 1
        self.log = self.after(self._seen_over, self._seen_under)

    def after(self, over: int, under: int) -> float:
        """What `log` is after so many samples above the limit and at or below it; their order does not matter."""
        logs = [
            over * step_over + under * step_under
            for step_over, step_under in zip(self._over, self._under, strict=True)
        ]
        best = max(logs)
        return best + math.log(sum(math.exp(log - best) for log in logs) / len(logs))
