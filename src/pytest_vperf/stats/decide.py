"""From samplers to a verdict in one call, for programs without pytest."""

from __future__ import annotations

from functools import cached_property
from typing import TYPE_CHECKING

from pytest_vperf.stats.limit import LimitRule
from pytest_vperf.stats.pair import PairRule
from pytest_vperf.stats.rule import check_number

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from pytest_vperf.stats.rule import Arm, Cause, Decision, State

    Sampler = Callable[[], float]


_LEAST_ADJACENT = 64


class Result:
    """A verdict and its evidence.

    Attributes:
        verdict: ``holds``, ``refuted`` or ``inconclusive``.
        samples: how often samplers were called, the warm-up included.
        seed: the seed of the coin that ordered the pairs; 0 without pairs.
    """

    def __init__(self, rule: PairRule | LimitRule, samples: int, seed: int, unit: float) -> None:
        self.samples = samples
        self.seed = seed
        self._rule = rule
        self._unit = unit

    @cached_property
    def _state(self) -> State:
        return self._rule.state

    @property
    def verdict(self) -> Decision:
        """``holds``, ``refuted`` or ``inconclusive``."""
        return self._rule.decision

    @property
    def reason(self) -> str:
        """Why, in one line."""
        return self._state.reason

    @property
    def cause(self) -> Cause:
        """Why the verdict is ``inconclusive``; otherwise empty."""
        return self._rule.cause

    @property
    def judged(self) -> int:
        """The number of pairs, or of samples of one arm, that were judged."""
        return self._state.samples

    @property
    def ratio(self) -> float | None:
        """The median of B / A; for a limit, the quantile over the limit, or ``None`` if the limit is 0."""
        return _divided(self._state.estimate, self._unit)

    @property
    def interval(self) -> tuple[float | None, float | None]:
        """The ratios that the samples do not reject; an end is ``None`` if unbounded.

        Computed on first use: the pairs are replayed some dozen times, each as costly as judging them.
        """
        low, high = _divided(self._state.low, self._unit), _divided(self._state.high, self._unit)
        return (low, high) if self._unit > 0 else (high, low)

    def __repr__(self) -> str:
        return f"<Result {self.verdict}: {self.reason}>"


def compare(
    sample_a: Sampler,
    sample_b: Sampler,
    *,
    tolerance: float = 0.02,
    alpha: float = 0.01,
    beta: float = 0.01,
    max_pairs: int = 512,
    seed: int = 0,
) -> Result:
    """Judge whether B is no worse than A: at most ``tolerance`` larger, where lower is better.

    Args:
        sample_a: takes a sample of the baseline: a positive number, lower is better.
        sample_b: takes a sample of the candidate.
        tolerance: how much larger B may be: 0.02 is 2 %; not negative.
        alpha: greatest chance to refute although B is within the tolerance.
        beta: greatest chance to say ``holds`` although B is beyond it.
        max_pairs: of samples, after which it is left undecided.
        seed: of the coin that says which of a pair goes first.

    Raises:
        TypeError: an argument, or a sampler's result, is not a number.
        ValueError: an argument is invalid, or a sample is not positive.
    """
    if check_number("the tolerance", tolerance) < 0:
        raise ValueError(f"the tolerance is {tolerance!r}, less than 0")
    rule = PairRule.at_most(1 + tolerance, alpha=alpha, beta=beta, max_pairs=max_pairs, seed=seed)
    # The rule judges a / b; the caller asks for B / A.
    return Result(rule, _run(rule, {"a": sample_b, "b": sample_a}), seed, 1.0)


def near(
    sample_a: Sampler,
    sample_b: Sampler,
    *,
    value: float,
    tolerance: float = 0.05,
    alpha: float = 0.01,
    beta: float = 0.01,
    max_pairs: int = 512,
    seed: int = 0,
) -> Result:
    """Judge whether B / A is ``value``, within ``tolerance`` of it.

    Args:
        sample_a: takes a sample of the denominator: a positive number.
        sample_b: takes a sample of the numerator.
        value: the claimed ratio B / A.
        tolerance: 0.05 allows ``value`` ± 5 % of it.
        alpha: greatest chance to refute although the ratio is inside.
        beta: greatest chance to say ``holds`` although it is outside.
        max_pairs: of samples, after which it is left undecided.
        seed: of the coin that says which of a pair goes first.

    Raises:
        ValueError: as `compare`.
    """
    rule = PairRule.near(value, tolerance, alpha=alpha, beta=beta, max_pairs=max_pairs, seed=seed)
    return Result(rule, _run(rule, {"a": sample_b, "b": sample_a}), seed, 1.0)


def limit(
    sample: Sampler,
    *,
    at_most: float | None = None,
    at_least: float | None = None,
    quantile: float = 0.5,
    alpha: float = 0.01,
    beta: float = 0.01,
    max_samples: int | None = None,
    sessions: int = 3,
    least: int | None = None,
    pause: Callable[[], object] | None = None,
) -> Result:
    """Judge whether a quantile of the samples is at most, or at least, a limit.

    Args:
        sample: takes a sample, a finite number.
        at_most: the limit, where lower is better; or
        at_least: the limit, where higher is better: one of the two.
        quantile: 0.5 is the median, 0.95 the 95th percentile.
        alpha: greatest chance to refute although it is on the good side.
        beta: greatest chance to say ``holds`` although it is not.
        max_samples: judged samples of all sessions, after which the limit stays undecided; by default 512, or more
        if the quantile needs more. If they are too few for it to hold, nothing is sampled, and the reason says how
        many it needs.
        sessions: the number of sessions, which have to agree.
        least: the fewest judged samples per session; by default 1 with ``pause`` and 64 without, as sessions run back
        to back have to be longer to see more than one level of the machine. Fewer suffice if the samples are far from
        the limit, below two thirds of it or above one and a half times.
        pause: called between sessions, to sleep or do other work: the farther apart they are, the more they are
        worth.

    Raises:
        TypeError: an argument, or the sampler's result, is not a number.
        ValueError: an argument is invalid, or a sample is not finite.
    """
    if (at_most is None) == (at_least is None):
        raise ValueError("give one of at_most and at_least")
    rule = LimitRule(
        at_least,
        at_most,
        quantile=quantile,
        alpha=alpha,
        beta=beta,
        max_samples=max_samples,
        sessions=sessions,
        least=least if least is not None else 1 if pause is not None else _LEAST_ADJACENT,
    )
    if rule.too_few:
        rule.stop(
            "too few samples",
            f"{rule.too_few}, and {max_samples} are allowed (max_samples): allow more",
        )
    return Result(rule, _run(rule, {"a": sample}, pause), 0, float(at_most or at_least or 0.0))


def _run(
    rule: PairRule | LimitRule,
    samplers: Mapping[Arm, Sampler],
    pause: Callable[[], object] | None = None,
) -> int:
    """Sample until the rule has decided; return the number of samples taken."""
    taken = 0
    while not rule.decided:
        if rule.paused:
            if pause is not None:
                pause()
            rule.resume()
        value = samplers[rule.next()]()
        taken += 1
        rule.add(value)
    return taken


def _divided(value: float | None, unit: float) -> float | None:
    return None if value is None or unit == 0 else value / unit
