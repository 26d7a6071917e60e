"""Rules without a threshold: they take a fixed number of samples, and describe them without judging.

A calibration's rule samples as `pytest_vperf.stats.limit` does, in sessions spread over the run and with the same
warm-up, so that it finds the figure a limit will later be compared with. The number of samples does not depend on
their values: that would bias their median.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from pytest_vperf.stats.evidence import quantile_interval
from pytest_vperf.stats.limit import WARM_UP, WARM_UP_LATER
from pytest_vperf.stats.pair import PairedSamples
from pytest_vperf.stats.rule import Arm, Cause, Ending, State, check_number, check_whole

if TYPE_CHECKING:
    from collections.abc import Sequence


class SingleSamples:
    """Samples in the order they were taken.

    Attributes:
        judged: the values after the warm-up.
    """

    def __init__(self, warm_up: int) -> None:
        """Begin; the first ``warm_up`` values are not judged: they are off by 5 to 50 %."""
        self.judged: list[float] = []
        self._warm_up = check_whole("warm_up", warm_up)

    @property
    def warming_up(self) -> bool:
        """Whether the next value is a warm-up."""
        return self._warm_up > 0

    def add(self, value: float) -> None:
        """Take a value.

        Raises:
            ValueError: it is not finite.
        """
        value = check_number("a sample", value)
        if self._warm_up > 0:
            self._warm_up -= 1
        else:
            self.judged.append(value)


#: The fewest samples whose minimum and maximum enclose the median with 99 %: 2 * 0.5**8 is 0.8 %.
_DESCRIBED_SAMPLES = 8
_DESCRIBED_CONFIDENCE = 0.99


class DescribeRule(Ending):
    """Takes a fixed number of samples of one arm, or of pairs; its decision is always ``inconclusive``."""

    def __init__(
        self,
        samples: int = _DESCRIBED_SAMPLES,
        warm_up: int = 1,
        *,
        paired: bool = False,
        seed: int = 0,
    ) -> None:
        """Make the rule.

        Args:
            samples: judged samples, or pairs, after which it ends.
            warm_up: first samples, or pairs, that are not judged.
            paired: whether two arms are compared; the estimate is then the median of the ratios a/b.
            seed: the seed of the pairs' order.
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
            ValueError: the value is not finite or, for pairs, not positive.
        """
        self._samples.add(value)
        if len(self._values) >= self._size:
            self.decided = True

    @property
    def state(self) -> State:
        """What is known now."""
        values = self._values
        error = (1 - _DESCRIBED_CONFIDENCE) / 2
        found = quantile_interval(values, 0.5, error, error) if len(values) > 1 else None
        noun = "pair" if isinstance(self._samples, PairedSamples) else "sample"
        return State(
            decided=self.decided,
            decision="inconclusive",
            reason=self._why + self._suspicion(values, noun),
            estimate=found.estimate if found else None,
            low=found.low if found else None,
            high=found.high if found else None,
            confidence=_DESCRIBED_CONFIDENCE,
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


#: Samples per session: as many as judging a limit takes when they agree.
_SAMPLES = 8
_CONFIDENCE = 0.99


class SurveyRule(Ending):
    """Takes samples of one arm in several sessions; its decision is always ``inconclusive``."""

    def __init__(
        self, samples: int = _SAMPLES, *, sessions: int = 3, warm_up: int = WARM_UP
    ) -> None:
        """Make the rule.

        Args:
            samples: judged samples of each session.
            sessions: how many; the rule is `paused` between them.
            warm_up: first samples that are not judged; later sessions leave out two at most.

        Raises:
            ValueError: an argument is invalid.
        """
        super().__init__()
        self._why = "measured, and judged by nothing"
        self._size = check_whole("samples", samples, 1)
        self._left = check_whole("sessions", sessions, 1) - 1
        self._warm_up = check_whole("warm_up", warm_up)
        self._warm_up_later = min(WARM_UP_LATER, self._warm_up)
        self._values: list[float] = []
        self._in_session = 0
        self._over = False

    def next(self) -> Arm:
        """The only arm."""
        return "a"

    @property
    def warming_up(self) -> bool:
        """Whether the next value is a warm-up."""
        return self._warm_up > 0

    @property
    def paused(self) -> bool:
        """Whether the session is over and another one follows."""
        return self._over and not self.decided

    def resume(self) -> None:
        """Begin the next session."""
        if self.paused:
            self._over, self._in_session = False, 0
            self._warm_up = self._warm_up_later
            self._left -= 1

    def add(self, value: float) -> None:
        """Take a sample; a paused rule begins its next session.

        Raises:
            ValueError: the value is not finite.
        """
        value = check_number("a sample", value)
        self.resume()
        if self.decided:
            return
        if self._warm_up > 0:
            self._warm_up -= 1
            return
        self._values.append(value)
        self._in_session += 1
        if self._in_session >= self._size:
            self._end_session()

    def stop(self, cause: Cause, reason: str) -> None:
        """End the sampling; if a session's time is up, end only that session.

        Costly samples are then fewer, but still come from every session.
        """
        if cause == "budget" and self._left > 0:
            self._end_session()
        else:
            super().stop(cause, reason)

    @property
    def state(self) -> State:
        """What is known now."""
        error = (1 - _CONFIDENCE) / 2
        values = self._values
        found = quantile_interval(values, 0.5, error, error) if len(values) > 1 else None
        return State(
            decided=self.decided,
            decision="inconclusive",
            reason=self._why + self._suspicion(values, "sample"),
            estimate=found.estimate if found else None,
            low=found.low if found else None,
            high=found.high if found else None,
            confidence=_CONFIDENCE,
            samples=len(values),
            cause=self.cause,
        )

    def _end_session(self) -> None:
        self._over = True
        if self._left <= 0:
            self.decided = True
