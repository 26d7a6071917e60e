"""The shape of a judge: a stopping rule that is fed one sample at a time.

A rule says which arm to sample next, takes the value, and after each one has a `State`. It reads no clock
and no file; equal seeds and equal values give equal states.

How the sampling of a judge ends: what every rule has of it.

Words and checks that the judges share.
"""

from __future__ import annotations

import math
import numbers
import operator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal, Protocol, SupportsIndex, cast

if TYPE_CHECKING:
    from collections.abc import Sequence

#: Rounds of a sweep, in all sessions together. Of the flat part of six loads, four of them, an interval of 99 % then
#: lies between the 5th and the 20th of 24 samples.
ROUNDS = 6


class Ending:
    """A verdict that is open until it is not.

    Attributes:
        decided: whether sampling is to end.
        decision: the verdict; ``inconclusive`` until there is another.
        cause: of a decided ``inconclusive``, which kind it is.
    """

    def __init__(self) -> None:
        self.decided = False
        self.decision: Decision = "inconclusive"
        self.cause: Cause = ""
        self._why = ""

    @property
    def paused(self) -> bool:
        """Never, for a rule of one session."""
        return False

    def resume(self) -> None:
        """Nothing to resume, for a rule of one session."""

    def stop(self, cause: Cause, reason: str) -> None:
        """End the sampling without a decision, if there is none yet."""
        if not self.decided:
            self._end("inconclusive", cause, reason)

    def _end(self, decision: Decision, cause: Cause, why: str) -> None:
        self.decided = True
        self.decision, self.cause, self._why = decision, cause, why


def check_number(name: str, value: object) -> float:
    """A finite number, as a float.

    Raises:
        TypeError: it is no number; ``True`` is none, and neither is a text that looks like one.
        ValueError: it is not finite.
    """
    if isinstance(value, bool) or not isinstance(value, numbers.Real):
        raise TypeError(f"{name} is {value!r}, not a number")
    try:
        number = float(value)
    except OverflowError:
        number = math.inf
    if not math.isfinite(number):
        raise ValueError(f"{name} is {value!r}, not a finite number")
    return number


def check_positive(name: str, value: object) -> float:
    """A positive number, as a float.

    Raises:
        TypeError: it is no number.
        ValueError: it is not finite, or not more than 0.
    """
    number = check_number(name, value)
    if number <= 0:
        raise ValueError(f"{name} is {value!r}, not a positive number")
    return number


def check_share(name: str, value: object, most: float = 1.0) -> float:
    """A number between 0 and ``most``, both excluded: an error rate, a quantile, a tolerance.

    Raises:
        TypeError: it is no number.
        ValueError: it is not between the two.
    """
    number = check_number(name, value)
    if not 0 < number < most:
        raise ValueError(f"{name} is {value!r}, not between 0 and {most:g}")
    return number


def check_error(name: str, value: object) -> float:
    """An error rate: more than 0, less than 0.5.

    Raises:
        TypeError: it is no number.
        ValueError: it is not between the two.
    """
    return check_share(name, value, 0.5)


def check_whole(name: str, value: object, least: int = 0) -> int:
    """A whole number of at least ``least``.

    Raises:
        TypeError: it is no whole number.
        ValueError: it is less.
    """
    if isinstance(value, bool) or not hasattr(value, "__index__"):
        raise TypeError(f"{name} is {value!r}, not a whole number")
    number = operator.index(cast("SupportsIndex", value))
    if number < least:
        raise ValueError(f"{name} is {value!r}, less than {least}")
    return number


def check_edges(name: str, lower: object, upper: object) -> list[float]:
    """The edges of what is claimed, one or two rising; ``None`` is none.

    Raises:
        TypeError: one is no number.
        ValueError: one is not finite, there is none, or they do not rise.
    """
    article = "an" if name[0] in "aeiou" else "a"
    edges = [check_number(f"{article} {name}", each) for each in (lower, upper) if each is not None]
    if not edges or edges != sorted(set(edges)):
        raise ValueError(f"the {name}s are {lower!r} and {upper!r}: not one number, nor two rising")
    return edges


def check_side(side: str) -> None:
    """Refuse what is no side.

    Raises:
        ValueError: it is neither ``at_most`` nor ``at_least``.
    """
    if side not in ("at_most", "at_least"):
        raise ValueError(f"side is {side!r}, not 'at_most' or 'at_least'")


def count(number: int, noun: str) -> str:
    """``1 sample``, ``5 samples``."""
    return f"{number} {noun}{'' if number == 1 else 's'}"


def suspicion(values: Sequence[float], noun: str) -> str:
    """A warning, for a reason, where all values are the same: real ones vary."""
    if len(values) < 2 or min(values) != max(values):
        return ""
    return f"; all {count(len(values), noun)} are identical, which a real measurement hardly is"


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
