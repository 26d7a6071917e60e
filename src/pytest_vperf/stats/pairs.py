"""Interleaved pairs of two arms; a fair coin says which arm goes first.

Neighbours in time share most of the noise, so the arms are sampled in turn. Which one goes first matters where the
first of two leaves something behind (a warm cache, a busy host), and the coin is what the judgement stands on: see
`pytest_vperf.stats.evidence`.
"""

from __future__ import annotations

import math
import random
from typing import TYPE_CHECKING

from pytest_vperf.stats.background import Pair
from pytest_vperf.stats.plain import check_number, check_whole

if TYPE_CHECKING:
    from pytest_vperf.stats.rule import Arm


class PairedSamples:
    """Pairs in the order they were taken.

    Attributes:
        pairs: every complete pair that counts.
    """

    def __init__(self, warm_up: int, seed: int, *, mirrored: bool = False) -> None:
        """Begin.

        Args:
            warm_up: first pairs that will not count.
            seed: equal seeds give equal orders.
            mirrored: higher is better: 1/value is judged instead of the value, which reads as a time.

        Raises:
            TypeError: ``warm_up`` or the seed is no whole number.
            ValueError: one of them is less than 0.
        """
        self.pairs: list[Pair] = []
        self._warm_up = check_whole("warm_up", warm_up)
        self._sign = -1.0 if mirrored else 1.0
        self._random = random.Random(check_whole("seed", seed))  # noqa: S311 - an order of samples, no secret # nosec B311
        self._first: float | None = None
        self._a_second = self._toss()

    def next(self) -> Arm:
        """Which arm to sample next."""
        is_a = self._a_second == (self._first is not None)
        return "a" if is_a else "b"

    @property
    def warming_up(self) -> bool:
        """Whether the next value belongs to a warm-up pair."""
        return self._warm_up > 0

    def add(self, value: float) -> Pair | None:
        """Take the value of the arm that `next` named.

        Returns:
            the pair, if the value completed one that counts.

        Raises:
            TypeError: it is no number.
            ValueError: it is not finite, or not positive, so that it has no ratio.
        """
        number = check_number("a sample", value)
        if number <= 0:
            raise ValueError(f"a sample is {value!r}: a ratio needs positive numbers")
        log = self._sign * math.log(number)
        if self._first is None:
            self._first = log
            return None
        pair = Pair(self._first, log, self._a_second)
        self._first, self._a_second = None, self._toss()
        if self._warm_up > 0:
            self._warm_up -= 1
            return None
        self.pairs.append(pair)
        return pair

    def _toss(self) -> bool:
        return bool(self._random.getrandbits(1))
