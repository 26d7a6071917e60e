"""When a judge looks at its samples, and how it decides there; shared by rules with a threshold.

Every look is one more chance of a wrong verdict. With K looks fixed beforehand, each gets 1/K of
the errors allowed (Bonferroni), so that all together stay within them, however the looks depend on
each other.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Literal

from pytest_vperf.stats.interval import standard_error, student_quantile
from pytest_vperf.stats.rule import State

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from pytest_vperf.stats.interval import Interval
    from pytest_vperf.stats.rule import Decision

Side = Literal["at_most", "at_least"]


@dataclass(frozen=True)
class Figure:
    """What a look computes, and the words for it.

    Attributes:
        name: of the figure, for reasons: ``mean``.
        noun: what is counted, for reasons: ``sample``.
        measure: makes the interval of values, given the errors of its two ends.
        student: whether the interval narrows as Student's does, so that the need can be forecast.
    """

    name: str
    noun: str
    measure: Callable[[Sequence[float], float, float], Interval]
    student: bool


@dataclass(frozen=True)
class Looks:
    """The plan of a sequential test.

    Attributes:
        side: ``at_most`` or ``at_least``: the good side of the threshold.
        alpha: greatest chance that a true claim is refuted, all looks together.
        beta: greatest chance that an untrue claim holds, likewise.
        sizes: the numbers of samples at which the test looks, rising; the last is the most it
            takes.

    Raises:
        ValueError: a value makes no sense; the text says which.
    """

    side: Side
    alpha: float
    beta: float
    sizes: tuple[int, ...]

    def __post_init__(self) -> None:
        if self.side not in ("at_most", "at_least"):
            raise ValueError(f"side is {self.side!r}, not 'at_most' or 'at_least'")
        for name, error in (("alpha", self.alpha), ("beta", self.beta)):
            if not 0 < error < 0.5:
                raise ValueError(f"{name} is {error!r}, not between 0 and 0.5")
        if not self.sizes or self.sizes[0] < 2 or sorted(set(self.sizes)) != list(self.sizes):
            raise ValueError(f"looks are {self.sizes!r}, not rising numbers from 2 on")

    @property
    def errors(self) -> tuple[float, float]:
        """The errors of the interval's lower and upper end at one look."""
        refute, hold = self.alpha / len(self.sizes), self.beta / len(self.sizes)
        return (refute, hold) if self.side == "at_most" else (hold, refute)

    @property
    def confidence(self) -> float:
        """The level of the interval, both ends and all looks together."""
        return 1 - self.alpha - self.beta

    def verdict(self, found: Interval, threshold: float) -> Decision:
        """What an interval says about the threshold; the threshold itself is on the good side."""
        low, high = found.low, found.high
        if self.side == "at_least":  # the mirror image
            low, high = (None if end is None else -end for end in (found.high, found.low))
            threshold = -threshold
        if high is not None and high <= threshold:
            return "holds"
        if low is not None and low > threshold:
            return "refuted"
        return "inconclusive"

    def state(self, values: Sequence[float], threshold: float, figure: Figure) -> State:
        """What is known after ``values``, the samples that count, in order.

        The interval is that of the last look, and there is none before the first: the errors allowed were shared
        out among the looks, and an interval of another number of samples has no share. The estimate is of all.
        """
        size = len(values)
        state = State(
            decided=False,
            decision="inconclusive",
            reason=self._waiting(size, figure),
            estimate=None,
            low=None,
            high=None,
            confidence=self.confidence,
            samples=size,
        )
        if size < 2:
            return state
        found = figure.measure(values, *self.errors)
        state = replace(state, estimate=found.estimate)
        if figure.student:
            gap = abs(found.estimate - threshold)
            state = replace(state, forecast=self._forecast(values, gap))
        look = max((look for look in self.sizes if look <= size), default=0)
        if look:
            seen = found if look == size else figure.measure(values[:look], *self.errors)
            state = replace(state, low=seen.low, high=seen.high)
        if look != size:
            return state
        decision = self.verdict(found, threshold)
        reason = self._why(decision, found, size, figure) + suspicion(values, figure.noun)
        if decision == "inconclusive":
            return replace(state, decided=size == self.sizes[-1], reason=reason)
        return replace(state, decided=True, decision=decision, reason=reason, forecast=size)

    def _waiting(self, size: int, figure: Figure) -> str:
        later = next((look for look in self.sizes if look > size), None)
        waits = f"; the next look is at {later}" if later else ""
        return f"{count(size, figure.noun)}{waits}"

    def _why(self, decision: Decision, found: Interval, size: int, figure: Figure) -> str:
        taken, interval = count(size, figure.noun), f"the interval of the {figure.name}"
        if decision != "inconclusive":
            good = decision == "holds"
            if self.side == "at_most":
                where = "at or below" if good else "above"
            else:
                where = "at or above" if good else "below"
            return f"after {taken} {interval} is {where} the threshold"
        if found.low is None and found.high is None:
            return f"{taken} are too few for an interval of the {figure.name}"
        if size == self.sizes[-1]:
            return f"too close to call: after all {taken} {interval} contains the threshold"
        return f"after {taken} {interval} contains the threshold"

    def _forecast(self, values: Sequence[float], gap: float) -> int | None:
        """How many samples bring the interval's half width down to the gap, at this spread."""
        size = len(values)
        spread = standard_error(values) * math.sqrt(size)
        if size < 3 or gap <= 0:
            return None
        level = 1 - min(self.errors)
        for look in self.sizes:
            if look >= size and student_quantile(level, look - 1) * spread <= gap * look**0.5:
                return look
        need = (student_quantile(level, self.sizes[-1] - 1) * spread / gap) ** 2
        return math.ceil(need) if need < 1e9 else None


def count(number: int, noun: str) -> str:
    """``1 sample``, ``5 samples``."""
    return f"{number} {noun}{'' if number == 1 else 's'}"


def suspicion(values: Sequence[float], noun: str) -> str:
    """A warning, for a reason, where all values are the same: real ones vary (design rule 9)."""
    if len(values) < 2 or min(values) != max(values):
        return ""
    return f"; all {count(len(values), noun)} are identical, which a real measurement hardly is"
