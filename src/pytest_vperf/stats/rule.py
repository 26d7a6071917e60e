"""The shape of a judge: a stopping rule that is fed one sample at a time.

A rule says which arm to sample next, takes the value, and after each one has a `State`. It reads no clock
and no file; equal seeds and equal values give equal states.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, Protocol

Arm = Literal["a", "b"]
Side = Literal["at_most", "at_least"]
Decision = Literal["holds", "refuted", "inconclusive"]
#: Why nothing was decided: the samples allowed are used up, or would be; the true value lies so near to the threshold
#: that no affordable number of samples tells; the sessions do not agree; the metric varies more between runs than
#: the difference asked about; of a sweep, that the sender could not offer the loads, or that there is no plateau yet.
Cause = Literal[
    "",
    "budget",
    "too close to call",
    "sessions disagree",
    "unstable",
    "sender",
    "still rising",
]


@dataclass(frozen=True)
class State:
    """What is known after the samples so far.

    Attributes:
        decided: whether sampling is to stop.
        decision: the verdict if sampling stopped now; ``inconclusive`` until it is decided.
        reason: one line that says why, in words of samples and interval.
        estimate: the statistic of the samples (of a pair rule: the ratio a/b); ``None`` before two samples.
        low: lower end of the interval for the estimate; ``None`` where the samples set none, and in rules for which
            it is work, until sampling ends.
        high: upper end.
        confidence: the level of that interval, e.g. 0.99, all looks together.
        samples: how many samples (of a pair rule: pairs) the judgement stands on, warm-up not counted.
        forecast: how many samples in all a decision is expected to need; ``None`` where not known.
        cause: of a decided ``inconclusive``, which kind it is; empty for every other state.
        forecast_at_best: the forecast if the truth lies well farther from the threshold than it seems; ``None`` where
            not known.
    """

    decided: bool
    decision: Decision
    reason: str
    estimate: float | None
    low: float | None
    high: float | None
    confidence: float
    samples: int
    forecast: int | None = None
    cause: Cause = ""
    forecast_at_best: int | None = None


class Rule(Protocol):
    """A sequential judge."""

    def next(self) -> Arm:
        """Which arm to sample next; a rule of one arm says ``"a"``."""
        ...

    @property
    def warming_up(self) -> bool:
        """Whether the next value is a warm-up: kept in the record, not judged."""
        ...

    def add(self, value: float) -> None:
        """Take the value of the arm that `next` named.

        Raises:
            ValueError: the value is not finite, or not positive where a ratio is judged.
        """
        ...

    @property
    def state(self) -> State:
        """What is known now."""
        ...

    def stop(self, cause: Cause, reason: str) -> None:
        """End the sampling without a decision, with the reason; without effect once it is decided.

        A rule has no clock: whose time is over says so here, and finds the interval in `state` afterwards.
        """
        ...

    @property
    def paused(self) -> bool:
        """Whether the next sample belongs to another session, to be taken some time later.

        The level of a machine moves by 2 to 37 % between sessions minutes apart, so one session cannot decide about
        an absolute limit. Only rules for a limit pause, and never once they have decided.
        """
        ...

    def resume(self) -> None:
        """Begin the next session, whenever it is; without effect where the rule is not paused."""
        ...
