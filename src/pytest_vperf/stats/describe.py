"""Rules without a threshold: a fixed number of samples, described and judged by nothing."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pytest_vperf.stats.interval import interval
from pytest_vperf.stats.looks import suspicion
from pytest_vperf.stats.pair import as_ratio
from pytest_vperf.stats.pairs import PairedSamples
from pytest_vperf.stats.rule import State
from pytest_vperf.stats.single import SingleSamples

if TYPE_CHECKING:
    from collections.abc import Sequence

    from pytest_vperf.stats.interval import Statistic
    from pytest_vperf.stats.rule import Arm

_CONFIDENCE = 0.99


class DescribeRule:
    """Takes a number of samples of one arm; its decision is always ``inconclusive``."""

    def __init__(self, statistic: Statistic = "mean", samples: int = 5, warm_up: int = 1) -> None:
        """Make the rule; it ends after ``samples`` values, the first ``warm_up`` not counted."""
        self._statistic = statistic
        self._size = samples
        self._samples = SingleSamples(warm_up)

    def next(self) -> Arm:
        """The only arm."""
        return "a"

    @property
    def warming_up(self) -> bool:
        """Whether the next value is a warm-up."""
        return self._samples.warming_up

    def add(self, value: float) -> None:
        """Take a sample.

        Raises:
            ValueError: the value is not finite.
        """
        self._samples.add(value)

    @property
    def state(self) -> State:
        """What is known now."""
        return _describe(self._samples.judged, self._size, self._statistic, "sample")


class DescribePairRule:
    """Takes a number of interleaved pairs; its decision is always ``inconclusive``."""

    def __init__(self, samples: int = 5, warm_up: int = 1, seed: int = 0) -> None:
        """Make the rule; it ends after ``samples`` pairs, the first ``warm_up`` not counted."""
        self._size = samples
        self._samples = PairedSamples(warm_up, seed)

    def next(self) -> Arm:
        """Which arm to sample next."""
        return self._samples.next()

    @property
    def warming_up(self) -> bool:
        """Whether the next value belongs to a warm-up pair."""
        return self._samples.warming_up

    def add(self, value: float) -> None:
        """Take the value of the arm that `next` named.

        Raises:
            ValueError: the value is not finite or not positive.
        """
        self._samples.add(value)

    @property
    def state(self) -> State:
        """What is known now, as of the last complete pair."""
        return as_ratio(_describe(self._samples.log_ratios, self._size, "mean", "pair"))


def _describe(values: Sequence[float], size: int, statistic: Statistic, noun: str) -> State:
    error = (1 - _CONFIDENCE) / 2
    found = interval(statistic, values, error, error) if len(values) > 1 else None
    return State(
        decided=len(values) >= size,
        decision="inconclusive",
        reason="no threshold" + suspicion(values, noun),
        estimate=found.estimate if found else None,
        low=found.low if found else None,
        high=found.high if found else None,
        confidence=_CONFIDENCE,
        samples=len(values),
        forecast=size,
    )
