"""The interface of a judge: a stopping rule that takes one sample at a time.

A rule names the arm to sample next, takes the value, and has a `State` after each one. It reads no clock and no file;
equal seeds and equal values give equal states. The checks and words that the judges share are also here.
"""

from __future__ import annotations

import math
import numbers
import operator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal, Protocol, SupportsIndex, cast

if TYPE_CHECKING:
    from collections.abc import Sequence

#: Rounds of a sweep, all sessions together. If four of its loads are flat, they have 24 samples, and a 99 % interval
#: lies between the 5th and the 20th.
ROUNDS = 6


class Ending:
    """The verdict of a rule, and how its sampling ends.

    Attributes:
        decided: whether sampling is over.
        decision: the verdict; ``inconclusive`` until there is another.
        cause: why a decided verdict is ``inconclusive``.
        discrete: whether identical values are no surprise; the reason then has no warning of them.
    """

    def __init__(self) -> None:
        self.discrete = False
        self.decided = False
        self.decision: Decision = "inconclusive"
        self.cause: Cause = ""
        self._why = ""

    @property
    def paused(self) -> bool:
        """Never, for a rule of one session."""
        return False

    def resume(self) -> None:
        """Do nothing, for a rule of one session."""

    def stop(self, cause: Cause, reason: str) -> None:
        """End the sampling without a decision, if there is none yet."""
        if not self.decided:
            self._end("inconclusive", cause, reason)

    def _suspicion(self, values: Sequence[float], noun: str) -> str:
        """A warning to append to a reason if all values are identical: real ones vary."""
        if self.discrete or len(values) < 2 or min(values) != max(values):
            return ""
        return f"; all {count(len(values), noun)} are identical, which real measurements hardly are"

    def _end(self, decision: Decision, cause: Cause, why: str) -> None:
        self.decided = True
        self.decision, self.cause, self._why = decision, cause, why


def check_number(name: str, value: object) -> float:
    """Check a finite number, and return it as a float.

    Raises:
        TypeError: it is not a number; ``True`` is not one, nor is a string of digits.
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
    """Check a positive number, and return it as a float.

    Raises:
        TypeError: it is no number.
        ValueError: it is not finite, or not more than 0.
    """
    number = check_number(name, value)
    if number <= 0:
        raise ValueError(f"{name} is {value!r}, not a positive number")
    return number


def check_share(name: str, value: object, most: float = 1.0) -> float:
    """Check a number between 0 and ``most``, both excluded: an error rate, a quantile, a tolerance.

    Raises:
        TypeError: it is no number.
        ValueError: it is not between the two.
    """
    number = check_number(name, value)
    if not 0 < number < most:
        raise ValueError(f"{name} is {value!r}, not between 0 and {most:g}")
    return number


def check_error(name: str, value: object) -> float:
    """Check an error rate: more than 0, less than 0.5.

    Raises:
        TypeError: it is no number.
        ValueError: it is not between the two.
    """
    return check_share(name, value, 0.5)


def check_whole(name: str, value: object, least: int = 0) -> int:
    """Check a whole number of at least ``least``.

    Raises:
        TypeError: it is not a whole number.
        ValueError: it is less.
    """
    if isinstance(value, bool) or not hasattr(value, "__index__"):
        raise TypeError(f"{name} is {value!r}, not a whole number")
    number = operator.index(cast("SupportsIndex", value))
    if number < least:
        raise ValueError(f"{name} is {value!r}, less than {least}")
    return number


def check_edges(name: str, lower: object, upper: object) -> list[float]:
    """Check the edges of a claimed range, one or two in ascending order; ``None`` is no edge.

    Raises:
        TypeError: one is not a number.
        ValueError: one is not finite, there is none, or they do not ascend.
    """
    article = "an" if name[0] in "aeiou" else "a"
    edges = [check_number(f"{article} {name}", each) for each in (lower, upper) if each is not None]
    if not edges or edges != sorted(set(edges)):
        raise ValueError(
            f"the {name}s are {lower!r} and {upper!r}: neither one number nor two in ascending order"
        )
    return edges


def check_side(side: str) -> None:
    """Refuse an invalid side.

    Raises:
        ValueError: it is neither ``at_most`` nor ``at_least``.
    """
    if side not in ("at_most", "at_least"):
        raise ValueError(f"side is {side!r}, not 'at_most' or 'at_least'")


def count(number: int, noun: str) -> str:
    """``1 sample``, ``5 samples``."""
    return f"{number} {noun}{'' if number == 1 else 's'}"


Arm = Literal["a", "b"]
Side = Literal["at_most", "at_least"]
Decision = Literal["holds", "refuted", "inconclusive"]
#: Why nothing was decided: the allowed samples are used up, or would be; fewer are allowed than a verdict about this
#: quantile takes; the true value is so near the threshold that
#: no affordable number of samples would tell; the sessions disagree; the metric varies more between runs than the
#: difference in question; the samples do not vary at all; in a sweep, the sender could not offer the loads, or there
#: is no plateau yet.
Cause = Literal[
    "",
    "budget",
    "too few samples",
    "too close to call",
    "sessions disagree",
    "unstable",
    "no variance",
    "sender",
    "still rising",
]


@dataclass(frozen=True)
class State:
    """The state of a judge after the samples so far.

    Attributes:
        decided: whether sampling should stop.
        decision: the verdict if sampling stopped now; ``inconclusive`` until it is decided.
        reason: why, in one line about samples and interval.
        estimate: the statistic of the samples (of a pair rule: the ratio a/b); ``None`` before two samples.
        low: lower end of the interval for the estimate; ``None`` if unbounded and, in rules where it is expensive,
        until sampling ends.
        high: upper end.
        confidence: the level of that interval, e.g. 0.99, over all looks.
        samples: the number of judged samples (in a pair rule: pairs), without warm-up.
        forecast: the expected total number of samples for a decision; ``None`` if unknown.
        cause: why a decided verdict is ``inconclusive``; empty in every other state.
        forecast_at_best: the forecast if the truth is well farther from the threshold than it seems; ``None`` if
        unknown.
        to_go: the samples that are still expected until a decision, steadier than the forecast: to choose by between
        claims; ``None`` if unknown.
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
    to_go: float | None = None


class Rule(Protocol):
    """A sequential judge.

    Attributes:
        discrete: whether identical values are no surprise.
    """

    discrete: bool

    def next(self) -> Arm:
        """Which arm to sample next; a rule of one arm returns ``"a"``."""
        ...

    @property
    def warming_up(self) -> bool:
        """Whether the next value is a warm-up: kept in the record, not judged."""
        ...

    def add(self, value: float) -> None:
        """Take a value of the arm that `next` named.

        Raises:
            ValueError: the value is not finite or, for a ratio, not positive.
        """
        ...

    @property
    def state(self) -> State:
        """The current state."""
        ...

    def stop(self, cause: Cause, reason: str) -> None:
        """End the sampling without a decision, for this reason; no effect once it is decided.

        A rule has no clock: a caller that runs out of time stops it, and then finds the interval in `state`.
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
        """Begin the next session; no effect if the rule is not paused."""
        ...
