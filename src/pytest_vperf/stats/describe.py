"""The rule of a calibration: a fixed number of samples in sessions spread over the run, judged by nothing.

It takes its samples where `pytest_vperf.stats.limit_rule` takes them, with the same warm-up, so that what it finds is
what a limit is held against later. How many there are does not depend on what they are: a number that did would
shift their median.
"""

from __future__ import annotations

from pytest_vperf.stats.ending import Ending
from pytest_vperf.stats.interval import quantile_interval
from pytest_vperf.stats.limit_rule import WARM_UP, WARM_UP_LATER
from pytest_vperf.stats.plain import check_number, check_whole, suspicion
from pytest_vperf.stats.rule import Arm, Cause, State

#: Of each session: as many as a limit is judged by where they agree.
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
            warm_up: first samples that do not count; later sessions leave out two at most.

        Raises:
            ValueError: an argument makes no sense.
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
        """Whether the session is over and another one is to come."""
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
        """End the sampling; where the time of a session is over, only that session.

        Dear samples are fewer then, and still from every session.
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
            reason=self._why + suspicion(values, "sample"),
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
