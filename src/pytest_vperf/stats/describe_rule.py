"""Rules without a threshold: a fixed number of samples, described and judged by nothing."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from pytest_vperf.stats.ending import Ending
from pytest_vperf.stats.interval import quantile_interval
from pytest_vperf.stats.pairs import PairedSamples
from pytest_vperf.stats.plain import suspicion
from pytest_vperf.stats.rule import State
from pytest_vperf.stats.single import SingleSamples

if TYPE_CHECKING:
    from collections.abc import Sequence

    from pytest_vperf.stats.rule import Arm

#: The fewest whose smallest and greatest enclose the median with 99 %: 2 * 0.5**8 is 0.8 %.
_SAMPLES = 8
_CONFIDENCE = 0.99


class DescribeRule(Ending):
    """Takes a number of samples of one arm, or of pairs; its decision is always ``inconclusive``."""

    def __init__(
        self, samples: int = _SAMPLES, warm_up: int = 1, *, paired: bool = False, seed: int = 0
    ) -> None:
        """Make the rule.

        Args:
            samples: judged samples, or pairs, after which it ends.
            warm_up: first samples, or pairs, that do not count.
            paired: whether two arms are compared; the estimate is then the median of the ratios a/b.
            seed: of the pairs' order.
        """
        super().__init__()
        self._why = "no threshold"
        self._size = samples
        self._samples = PairedSamples(warm_up, seed) if paired else SingleSamples(warm_up)

    def next(self) -> Arm:
        """Which arm to sample next."""
        return self._samples.next() if isinstance(self._samples, PairedSamples) else "a"

    @property
    def warming_up(self) -> bool:
        """Whether the next value is a warm-up."""
        return self._samples.warming_up

    def add(self, value: float) -> None:
        """Take a sample.

        Raises:
            ValueError: the value is not finite, or, where pairs are taken, not positive.
        """
        self._samples.add(value)
        if len(self._values) >= self._size:
            self.decided = True

    @property
    def state(self) -> State:
        """What is known now."""
        values = self._values
        error = (1 - _CONFIDENCE) / 2
        found = quantile_interval(values, 0.5, error, error) if len(values) > 1 else None
        noun = "pair" if isinstance(self._samples, PairedSamples) else "sample"
        return State(
            decided=self.decided,
            decision="inconclusive",
            reason=self._why + suspicion(values, noun),
            estimate=found.estimate if found else None,
            low=found.low if found else None,
            high=found.high if found else None,
            confidence=_CONFIDENCE,
            samples=len(values),
            forecast=self._size,
            cause=self.cause,
            forecast_at_best=self._size,
        )

    @property
    def _values(self) -> Sequence[float]:
        if isinstance(self._samples, SingleSamples):
            return self._samples.judged
        return [
            math.exp(pair.second - pair.first if pair.a_second else pair.first - pair.second)
            for pair in self._samples.pairs
        ]
