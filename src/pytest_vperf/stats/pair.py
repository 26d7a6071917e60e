"""The judge of two arms against each other, by the ratio a/b of interleaved pairs.

Samples close in time share most of their noise, so the arms are sampled in pairs. A fair coin decides which arm goes
first, as the first may leave something behind (a warm cache, a busy host); the judgement rests on that coin, see
`pytest_vperf.stats.evidence`. The interval is found by gathering the same evidence again for ratios other than the
threshold.
"""

from __future__ import annotations

import math
import random
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

from pytest_vperf.stats.evidence import Background, Evidence, Pair
from pytest_vperf.stats.outlook import (
    forecast,
    forecast_at_best,
    hopeless,
    pairs_needed,
    pairs_to_go,
)
from pytest_vperf.stats.rule import (
    Ending,
    State,
    check_edges,
    check_error,
    check_number,
    check_positive,
    check_share,
    check_side,
    check_whole,
    count,
)

if TYPE_CHECKING:
    from collections.abc import Sequence

    from pytest_vperf.stats.rule import Arm, Side


class PairedSamples:
    """Pairs in the order they were taken.

    Attributes:
        pairs: every complete pair after the warm-up.
    """

    def __init__(self, warm_up: int, seed: int, *, mirrored: bool = False) -> None:
        """Begin.

        Args:
            warm_up: first pairs that are not judged.
            seed: equal seeds give equal orders.
            mirrored: judge 1/value, for rates: the reciprocal of a rate is a time.

        Raises:
            TypeError: ``warm_up`` or the seed is not a whole number.
            ValueError: one of them is less than 0.
        """
        self.pairs: list[Pair] = []
        self._warm_up = check_whole("warm_up", warm_up)
        self._sign = -1.0 if mirrored else 1.0
        self._random = random.Random(check_whole("seed", seed))  # nosec B311 # an order, not a secret
        self._first: float | None = None
        self._a_second = self._toss()

    def next(self) -> Arm:
        """Which arm to sample next."""
        is_a = self._a_second == (self._first is not None)
        return "a" if is_a else "b"

    @property
    def warming_up(self) -> bool:
        """Whether the next value belongs to a warm-up pair."""
        return self._warm_up > 0

    def add(self, value: float) -> Pair | None:
        """Take a value of the arm that `next` named.

        Returns:
            the pair, if the value completed one after the warm-up.

        Raises:
            TypeError: it is not a number.
            ValueError: it is not finite, or not positive, so it has no ratio.
        """
        number = check_number("a sample", value)
        if number <= 0:
            raise ValueError(f"a sample is {value!r}: a ratio needs positive numbers")
        log = self._sign * math.log(number)
        if self._first is None:
            self._first = log
            return None
        pair = Pair(self._first, log, self._a_second)
        self._first, self._a_second = None, self._toss()
        if self._warm_up > 0:
            self._warm_up -= 1
            return None
        self.pairs.append(pair)
        return pair

    def _toss(self) -> bool:
        return bool(self._random.getrandbits(1))


#: How often the gap between a rejected and a possible ratio is halved.
_HALVINGS = 8
#: The farthest logarithm searched for the end of an interval: a factor of a million.
_FARTHEST = math.log(1e6)


class Band(NamedTuple):
    """An interval of logarithms of ratios; an end is ``None`` if unbounded."""

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

    A ratio is rejected if the evidence against it was ever strong enough. The ends are found by bisection, to within
    1/256 of the distance at which they were first passed.

    Args:
        pairs: all that were judged, in order.
        effect: the rule's.
        centre: where to begin: a ratio that is not rejected, usually the estimate.
        low_error: chance that the truth lies below the lower end.
        high_error: chance that it lies above the upper end.
        good_side_low: the good side at the lower end, which selects the gamblers there.
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
        """The next ratio to test."""
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


#: The distance that matters if the threshold is 1, an ordering, and so names none: 2 %.
_USUAL_EFFECT = math.log(1.02)
#: The greatest distance bet on: candidates farther from their threshold need few pairs anyway: 5 %.
_GREATEST_EFFECT = math.log(1.05)
#: Pairs from which the rule checks whether the threshold is too close to call. Each check replays all pairs, so there
#: are two per doubling: at 64, 96, 128, 192, …
_ASK_WHETHER_CLOSE = 64
#: It checks only if the expected number of pairs to show it is at most this many times those taken.
_WORTH_ASKING = 1.5
#: The interval, in pairs, at which it checks whether even the greatest allowed number would not decide.
_ASK_WHETHER_HOPELESS = 16
#: Error of "the truth lies within half the tolerance of the threshold", which only ends sampling.
_CLOSE_ERROR = 0.05


class PairRule(Ending):
    """Takes pairs until there is enough evidence that their ratio lies on one side of the threshold.

    The error rates hold for any kind of noise and at every stopping time: see `pytest_vperf.stats.evidence`. An
    ordering ("a is no slower than b") is the threshold 1. The estimate is the median ratio.
    """

    def __init__(
        self,
        lower: float | None,
        upper: float | None,
        *,
        alpha: float = 0.01,
        beta: float = 0.01,
        max_pairs: int = 512,
        warm_up: int = 1,
        seed: int = 0,
        effect: float | None = None,
        mirrored: bool = False,
    ) -> None:
        """Make the rule, usually by `at_most` or `near`.

        Args:
            lower: log of the smallest ratio at which the claim is true; ``None`` for none.
            upper: log of the greatest; ``None`` for none.
            alpha: greatest chance that a true claim is refuted; two edges share it.
            beta: greatest chance that an untrue claim holds.
            max_pairs: the number of pairs after which it stays undecided.
            warm_up: first pairs that are not judged.
            seed: the coin's.
            effect: the distance from an edge that matters, in logarithms; by default the distance of the edge from
                "no difference", or half the band. It affects how soon a decision comes, not how often it is wrong.
            mirrored: judge 1/value, for a ratio of rates, where higher is better.

        Raises:
            TypeError: an argument is not a number.
            ValueError: an argument is invalid.
        """
        super().__init__()
        edges = check_edges("edge", lower, upper)
        self._alpha, self._beta = check_error("alpha", alpha), check_error("beta", beta)
        self._most = check_whole("max_pairs", max_pairs, 1)
        self._mirrored = mirrored
        self.seed = seed
        if effect is None:
            distance = (edges[1] - edges[0]) / 2 if len(edges) == 2 else abs(edges[0])
            effect = min(distance, _GREATEST_EFFECT) or _USUAL_EFFECT
        self._effect = effect
        self._samples = PairedSamples(warm_up, seed, mirrored=mirrored)
        self._background = Background()
        self._upper = None if upper is None else Evidence(upper, effect, good="below")
        self._lower = None if lower is None else Evidence(lower, effect, good="above")
        self._edges = [each for each in (self._lower, self._upper) if each is not None]
        self._to_refute = math.log(len(self._edges) / self._alpha)
        self._to_hold = math.log(1 / self._beta)
        self._interval: Band | None = None

    @classmethod
    def at_most(cls, threshold: float, side: Side = "at_most", **options: Any) -> PairRule:
        """The rule for "a/b is at most (at least) ``threshold``".

        Raises:
            ValueError: the threshold is not a positive number, or the side is invalid.
        """
        check_side(side)
        log = math.log(check_positive("the threshold", threshold))
        if side == "at_least":
            return cls(None, -log, mirrored=True, **options)
        return cls(None, log, **options)

    @classmethod
    def between(cls, low: float, high: float, **options: Any) -> PairRule:
        """The rule for "a/b is at least ``low`` and at most ``high``".

        Raises:
            ValueError: an end is not a positive number, or they are not in this order.
        """
        ends = [math.log(check_positive("the end", end)) for end in (low, high)]
        return cls(ends[0], ends[1], **options)

    @classmethod
    def near(cls, value: float, tolerance: float, **options: Any) -> PairRule:
        """The rule for "a/b lies within ``tolerance``, a share of ``value``, of it".

        It is two one-sided tests (Schuirmann 1987), one at each end of the band.

        Raises:
            ValueError: the value is not a positive number, or the tolerance not between 0 and 1.
        """
        log = math.log(check_positive("the value", value))
        tolerance = check_share("the tolerance", tolerance)
        return cls(log + math.log1p(-tolerance), log + math.log1p(tolerance), **options)

    def next(self) -> Arm:
        """Which arm to sample next."""
        return self._samples.next()

    @property
    def warming_up(self) -> bool:
        """Whether the next value belongs to a warm-up pair."""
        return self._samples.warming_up

    def add(self, value: float) -> None:
        """Take a value of the arm that `next` named; a verdict once reached is final.

        Raises:
            ValueError: the value is not finite or not positive.
        """
        if self.decided:
            return
        pair = self._samples.add(value)
        if pair is None:
            return
        for edge in self._edges:
            edge.add(pair, self._background)
        self._background.add(pair)
        self._decide()

    @property
    def state(self) -> State:
        """The state as of the last complete pair; the interval is computed only once it is decided."""
        size = len(self._samples.pairs)
        if not self.decided:
            reason = count(size, "pair")
        else:
            reason = self._why + self._suspicion(self._background.differences, "pair")
        outlook = self._outlook()
        found = self.interval if self.decided else Band(None, None)
        estimate = self._background.estimate
        # With noise of several levels the median may jump outside the interval, where the evidence has rejected the
        # ratio.
        if found.low is not None:
            estimate = max(estimate, found.low)
        if found.high is not None:
            estimate = min(estimate, found.high)
        return State(
            decided=self.decided,
            decision=self.decision,
            reason=reason,
            estimate=self._ratio(estimate) if size >= 2 else None,
            low=self._ratio(found.high if self._mirrored else found.low),
            high=self._ratio(found.low if self._mirrored else found.high),
            confidence=1 - sum(self._errors),
            samples=size,
            forecast=size if self.decided and not self.cause else forecast(size, *outlook),
            cause=self.cause,
            forecast_at_best=forecast_at_best(size, *outlook),
            to_go=None if self.decided else self._to_go(),
        )

    @property
    def interval(self) -> Band:
        """The logarithms of the ratios that are not rejected; of 1/values if mirrored."""
        if self._interval is None:
            # A verdict is about the edge: with the verdict's error, the interval ends on the same side of it.
            one_edge, (low_error, high_error) = len(self._edges) == 1, self._errors
            low, high = band(
                self._samples.pairs,
                self._effect,
                centre=self._background.estimate,
                low_error=low_error,
                high_error=high_error,
                good_side_low="below" if one_edge else "above",
            )
            # The search has a finite resolution, but whether an edge is rejected is known exactly.
            for edge in self._edges:
                if edge.above.peak >= math.log(1 / low_error):
                    low = edge.shift if low is None else max(low, edge.shift)
                if edge.below.peak >= math.log(1 / high_error):
                    high = edge.shift if high is None else min(high, edge.shift)
            self._interval = Band(low, high)
        return self._interval

    @property
    def _errors(self) -> tuple[float, float]:
        """The errors of the interval's ends: those of the verdicts they correspond to."""
        if len(self._edges) == 1:
            return self._alpha, self._beta
        either = max(self._alpha / 2, self._beta)
        return either, either

    def _decide(self) -> None:
        """Look at the evidence; allowed after every pair."""
        size = len(self._samples.pairs)
        after = f"after {count(size, 'pair')}"
        if any(_bad(edge) >= self._to_refute for edge in self._edges):
            error = f"error at most {self._alpha:.2g}"
            where = "outside the band" if len(self._edges) > 1 else f"{self._worse} the threshold"
            self._end("refuted", "", f"{after} the ratio is shown to lie {where}, {error}")
        elif all(_good(edge) >= self._to_hold for edge in self._edges):
            error = f"error at most {self._beta:.2g}"
            where = "inside the band" if len(self._edges) > 1 else f"{self._better} the threshold"
            self._end("holds", "", f"{after} the ratio is shown to lie {where}, {error}")
        elif size >= self._most:
            self._end("inconclusive", "budget", f"undecided {after}, all that are allowed")
        elif _asks_whether_close(size) and self._is_close():
            self._end(
                "inconclusive",
                "too close to call",
                f"too close to call: {after} the ratio is shown to lie within "
                f"{math.expm1(self._effect / 2):.1%} of the threshold",
            )
        elif size % _ASK_WHETHER_HOPELESS == 0 and hopeless(size, self._most, *self._outlook()):
            likely = forecast(size, *self._outlook())
            text = f"about {likely} needed" if likely else "far more needed"
            self._end("inconclusive", "budget", f"given up {after}: {text}, {self._most} allowed")

    def _is_close(self) -> bool:
        return any(self._is_close_to(edge.shift) for edge in self._edges)

    def _is_close_to(self, shift: float) -> bool:
        half, size = self._effect / 2, len(self._samples.pairs)
        room = half - abs(self._background.centre - shift)
        # The replay is expensive, so skip it while it cannot succeed.
        if pairs_needed(self._background.spread, room, _CLOSE_ERROR) > _WORTH_ASKING * size:
            return False
        pairs = self._samples.pairs
        return shown(pairs, self._effect, shift - half, shift + half, _CLOSE_ERROR)

    def _outlook(self) -> tuple[float, float, float]:
        """Spread, distance from the nearest edge, and the error allowed on that side."""
        centre = self._background.centre
        distance = min(abs(centre - edge.shift) for edge in self._edges)
        inside = all((centre <= edge.shift) == (edge is self._upper) for edge in self._edges)
        error = self._beta if inside else self._alpha / len(self._edges)
        return self._background.spread, distance, error

    def _to_go(self) -> float:
        centre = self._background.centre
        edge = min(self._edges, key=lambda each: abs(centre - each.shift))
        sign = 1 if edge.good == "below" else -1
        one_edge = len(self._edges) == 1
        return pairs_to_go(
            len(self._samples.pairs),
            self._background.spread,
            sign * (edge.shift - centre),
            sign * edge.shift if one_edge else None,
            for_it=self._to_hold - max(0.0, _good(edge)),
            against_it=self._to_refute - max(0.0, _bad(edge)),
        )

    @property
    def _worse(self) -> Literal["above", "below"]:
        return "below" if self._mirrored else "above"

    @property
    def _better(self) -> Literal["at or below", "at or above"]:
        return "at or above" if self._mirrored else "at or below"

    def _ratio(self, log: float | None) -> float | None:
        if log is None:
            return None
        try:
            return math.exp(-log if self._mirrored else log)
        except OverflowError:  # an interval this wide is unbounded
            return None


def _asks_whether_close(size: int) -> bool:
    """Whether a number of pairs is 64 or 96 times a power of two."""
    halved = size
    while halved >= 2 * _ASK_WHETHER_CLOSE and halved % 2 == 0:
        halved //= 2
    return halved in (_ASK_WHETHER_CLOSE, _ASK_WHETHER_CLOSE * 3 // 2)


def _good(edge: Evidence) -> float:
    return edge.below.log if edge.good == "below" else edge.above.log


def _bad(edge: Evidence) -> float:
    return edge.above.log if edge.good == "below" else edge.below.log
