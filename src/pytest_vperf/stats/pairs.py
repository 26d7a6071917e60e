"""Interleaved pairs of two arms, in a shuffled and balanced order.

Neighbours in time share most of the noise, so the two arms are sampled in turn and compared pair by
pair. Which arm goes first matters where the first of two leaves something behind (a warm cache, a
busy host): in every block of four pairs two begin with ``a`` and two with ``b``, in an order drawn
from the seed.
"""

from __future__ import annotations

import math
import random
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pytest_vperf.stats.rule import Arm

_BLOCK = ("ab", "ab", "ba", "ba")


class PairedSamples:
    """Pairs in the order they were taken.

    Attributes:
        log_ratios: log(a / b) of each complete pair that counts.
    """

    def __init__(self, warm_up: int, seed: int) -> None:
        """Begin; the first ``warm_up`` pairs will not count. Equal seeds give equal orders."""
        if warm_up < 0:
            raise ValueError(f"warm_up is {warm_up}, less than 0")
        self.log_ratios: list[float] = []
        self._warm_up = warm_up
        self._random = random.Random(seed)  # noqa: S311 - an order of samples, no secret
        self._block: list[str] = []
        self._values: dict[Arm, float] = {}
        # The blocks begin with the first pair that counts.
        self._order = self._random.choice(("ab", "ba")) if warm_up else self._draw()

    def next(self) -> Arm:
        """Which arm to sample next."""
        return "a" if self._order[len(self._values)] == "a" else "b"

    @property
    def warming_up(self) -> bool:
        """Whether the next value belongs to a warm-up pair."""
        return self._warm_up > 0

    def add(self, value: float) -> None:
        """Take the value of the arm that `next` named.

        Raises:
            ValueError: it is not finite, or not positive, so that it has no ratio.
        """
        if not math.isfinite(value):
            raise ValueError(f"a sample is {value!r}, not a finite number")
        if value <= 0:
            raise ValueError(f"a sample is {value!r}: a ratio needs positive numbers")
        self._values[self.next()] = value
        if len(self._values) < 2:
            return
        ratio = math.log(self._values["a"]) - math.log(self._values["b"])
        self._values = {}
        if self._warm_up > 0:
            self._warm_up -= 1
        else:
            self.log_ratios.append(ratio)
        self._order = self._random.choice(("ab", "ba")) if self._warm_up > 0 else self._draw()

    def _draw(self) -> str:
        if not self._block:
            self._block = list(_BLOCK)
            self._random.shuffle(self._block)
        return self._block.pop()
