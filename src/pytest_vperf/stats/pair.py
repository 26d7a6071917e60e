"""The judge of two arms against each other, by the ratio a/b of interleaved pairs."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import TYPE_CHECKING

from pytest_vperf.stats.interval import mean_interval
from pytest_vperf.stats.looks import Figure, Looks
from pytest_vperf.stats.pairs import PairedSamples

if TYPE_CHECKING:
    from pytest_vperf.stats.looks import Side
    from pytest_vperf.stats.rule import Arm, State

_RATIO = Figure(name="ratio", noun="pair", measure=mean_interval, student=True)


class PairRule:
    """Samples pairs until the interval of their ratio lies on one side of the threshold.

    The interval is Student's for the mean of the log ratios.

    An ordering ("a is no slower than b") is the threshold 1. The estimate is the geometric mean
    ratio.
    """

    def __init__(
        self,
        threshold: float,
        side: Side,
        alpha: float = 0.01,
        beta: float = 0.01,
        looks: tuple[int, ...] = (8, 12, 16, 24, 32),
        warm_up: int = 1,
        seed: int = 0,
    ) -> None:
        """Make the rule.

        Args:
            threshold: the ratio a/b, positive.
            side: ``at_most`` or ``at_least``.
            alpha: greatest chance that a true claim is refuted.
            beta: greatest chance that an untrue claim holds.
            looks: counts of pairs at which a verdict may fall; multiples of four, so that both
                orders inside a pair are equally frequent there.
            warm_up: first pairs that are not judged.
            seed: of the order inside the pairs.

        Raises:
            ValueError: an argument makes no sense.
        """
        if not (math.isfinite(threshold) and threshold > 0):
            raise ValueError(f"the threshold is {threshold!r}, not a positive number")
        self._threshold = math.log(threshold)
        self._looks = Looks(side, alpha, beta, tuple(looks))
        self._samples = PairedSamples(warm_up, seed)
        self._state = self._judge()

    def next(self) -> Arm:
        """Which arm to sample next."""
        return self._samples.next()

    @property
    def warming_up(self) -> bool:
        """Whether the next value belongs to a warm-up pair."""
        return self._samples.warming_up

    def add(self, value: float) -> None:
        """Take the value of the arm that `next` named; a verdict once reached stands.

        Raises:
            ValueError: the value is not finite or not positive.
        """
        self._samples.add(value)
        if not self._state.decided and len(self._samples.log_ratios) > self._state.samples:
            self._state = self._judge()

    @property
    def state(self) -> State:
        """What is known now, as of the last complete pair."""
        return self._state

    def _judge(self) -> State:
        state = self._looks.state(self._samples.log_ratios, self._threshold, _RATIO)
        return as_ratio(state)


def as_ratio(state: State) -> State:
    """The state of log ratios as one of ratios."""
    return replace(
        state,
        estimate=_exp(state.estimate),
        low=_exp(state.low),
        high=_exp(state.high),
    )


def _exp(value: float | None) -> float | None:
    if value is None:
        return None
    try:
        return math.exp(value)
    except OverflowError:  # so wide an interval has no end
        return None
