"""What else a row of pairs shows: the same evidence, gathered again for other ratios than the threshold."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Literal, NamedTuple

from pytest_vperf.stats.background import Background
from pytest_vperf.stats.evidence import Evidence

if TYPE_CHECKING:
    from collections.abc import Sequence

    from pytest_vperf.stats.background import Pair

#: How often the distance between a rejected and a possible ratio is halved.
_HALVINGS = 8
#: Logarithms beyond which no end of an interval is looked for: a factor of a million.
_FARTHEST = math.log(1e6)


class Band(NamedTuple):
    """An interval of logarithms of ratios; an end is ``None`` where the pairs set none."""

    low: float | None
    high: float | None


def shown(pairs: Sequence[Pair], effect: float, low: float, high: float, error: float) -> bool:
    """Whether the pairs show that log(a/b) lies between ``low`` and ``high``, each with this error."""
    above, below = Evidence(low, effect, good="above"), Evidence(high, effect, good="below")
    gather(pairs, [above, below])
    return min(above.above.peak, below.below.peak) >= math.log(1 / error)


def gather(pairs: Sequence[Pair], questions: Sequence[Evidence]) -> None:
    """Feed the pairs to several questions at once."""
    background = Background()
    for pair in pairs:
        for each in questions:
            each.add(pair, background)
        background.add(pair)


def band(
    pairs: Sequence[Pair],
    effect: float,
    *,
    centre: float,
    low_error: float,
    high_error: float,
    good_side_low: Literal["below", "above"] = "below",
) -> Band:
    """The ratios that the pairs do not reject: a confidence sequence (Howard, Ramdas, McAuliffe and Sekhon 2021).

    A ratio is rejected when the evidence against it was ever strong enough. The ends are found by halving, to within
    1/256 of the distance at which they were first passed.

    Args:
        pairs: all that were judged, in order.
        effect: as the rule had it.
        centre: where to begin; a ratio that is not rejected, usually the estimate.
        low_error: chance that the truth lies below the lower end.
        high_error: chance that it lies above the upper end.
        good_side_low: the good side at the lower end, which says who bets there.
    """
    if not pairs:
        return Band(None, None)
    low, high = _End(centre, -1, low_error), _End(centre, 1, high_error)
    step = effect
    while not (low.passed and high.passed) and step < _FARTHEST:
        _probe(pairs, effect, low, high, step, good_side_low)
        step *= 2
    for _ in range(_HALVINGS):
        _probe(pairs, effect, low, high, None, good_side_low)
    return Band(low.end, high.end)


class _End:
    """One end of the interval: between ``inside``, not rejected, and ``outside``, rejected."""

    def __init__(self, centre: float, sign: int, error: float) -> None:
        self.centre, self.sign = centre, sign
        self.strength = math.log(1 / error)
        self.inside, self.outside = 0.0, math.inf

    @property
    def passed(self) -> bool:
        return math.isfinite(self.outside)

    @property
    def end(self) -> float | None:
        return self.centre + self.sign * self.outside if self.passed else None

    def shift(self, step: float | None) -> float:
        """The next ratio to ask about."""
        self.asked = self.inside
        if step is None and self.passed:
            self.asked = (self.inside + self.outside) / 2
        elif step is not None and not self.passed:
            self.asked = step
        return self.centre + self.sign * self.asked

    def answer(self, peak: float) -> None:
        if peak >= self.strength:
            self.outside = min(self.outside, self.asked)
        elif self.asked < self.outside:
            self.inside = max(self.inside, self.asked)


def _probe(
    pairs: Sequence[Pair],
    effect: float,
    low: _End,
    high: _End,
    step: float | None,
    good_side_low: Literal["below", "above"],
) -> None:
    at_low = Evidence(low.shift(step), effect, good=good_side_low)
    at_high = Evidence(high.shift(step), effect, good="below")
    gather(pairs, [at_low, at_high])
    low.answer(at_low.above.peak)
    high.answer(at_high.below.peak)
