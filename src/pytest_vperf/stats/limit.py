"""The judge of one arm against an absolute limit."""

from __future__ import annotations

import functools
import math
from typing import TYPE_CHECKING

from pytest_vperf.stats.interval import interval
from pytest_vperf.stats.looks import Figure, Looks
from pytest_vperf.stats.single import SingleSamples

if TYPE_CHECKING:
    from pytest_vperf.stats.interval import Statistic
    from pytest_vperf.stats.looks import Side
    from pytest_vperf.stats.rule import Arm, State


class LimitRule:
    """Samples until an interval of the mean or median lies on one side of the threshold.

    The errors hold for samples that are independent and, for the mean, near normal. They say
    nothing about another session on the same machine, whose level may differ by more than this
    one's spread.
    """

    def __init__(
        self,
        threshold: float,
        side: Side,
        statistic: Statistic = "mean",
        alpha: float = 0.01,
        beta: float = 0.01,
        looks: tuple[int, ...] = (5, 8, 13, 20, 32),
        warm_up: int = 1,
    ) -> None:
        """Make the rule.

        Args:
            threshold: the limit, in the unit of the samples.
            side: ``at_most`` or ``at_least``.
            statistic: ``mean`` (Student's interval) or ``median`` (order statistics; with five
                looks at 0.01 it cannot decide with fewer than nine samples).
            alpha: greatest chance that a true claim is refuted.
            beta: greatest chance that an untrue claim holds.
            looks: sample counts at which a verdict may fall; the last ends the sampling.
            warm_up: first samples that are not judged.

        Raises:
            ValueError: an argument makes no sense.
        """
        if not math.isfinite(threshold):
            raise ValueError(f"the threshold is {threshold!r}, not a finite number")
        if statistic not in ("mean", "median"):
            raise ValueError(f"statistic is {statistic!r}, not 'mean' or 'median'")
        self._threshold = threshold
        self._figure = Figure(
            name=statistic,
            noun="sample",
            measure=functools.partial(interval, statistic),
            student=statistic == "mean",
        )
        self._looks = Looks(side, alpha, beta, tuple(looks))
        self._samples = SingleSamples(warm_up)
        self._state = self._judge()

    def next(self) -> Arm:
        """The only arm."""
        return "a"

    @property
    def warming_up(self) -> bool:
        """Whether the next value is a warm-up."""
        return self._samples.warming_up

    def add(self, value: float) -> None:
        """Take a sample; a verdict once reached stands.

        Raises:
            ValueError: the value is not finite.
        """
        self._samples.add(value)
        if not self._state.decided:
            self._state = self._judge()

    @property
    def state(self) -> State:
        """What is known now."""
        return self._state

    def _judge(self) -> State:
        return self._looks.state(self._samples.judged, self._threshold, self._figure)
