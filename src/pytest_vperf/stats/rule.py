"""The shape of a judge: a stopping rule that is fed one sample at a time.

A rule says which arm to sample next, takes the value, and after each one has a `State`. It reads no clock
and no file; equal seeds and equal values give equal states.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, Protocol

Arm = Literal["a", "b"]
Decision = Literal["holds", "refuted", "inconclusive"]


@dataclass(frozen=True)
class State:
    """What is known after the samples so far.

    Attributes:
        decided: whether sampling is to stop.
        decision: the verdict if sampling stopped now; ``inconclusive`` until it is decided.
        reason: one line that says why, in words of samples and interval.
        estimate: the statistic of the samples (of a pair rule: the ratio a/b); ``None`` before two samples.
        low: lower end of the interval for the estimate; ``None`` before two samples.
        high: upper end.
        confidence: the level of that interval, e.g. 0.99, all looks together.
        samples: how many samples (of a pair rule: pairs) the judgement stands on, warm-up not counted.
        forecast: how many samples in all a decision is expected to need; ``None`` where not known.
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
