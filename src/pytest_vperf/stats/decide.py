"""From samplers to a verdict in one call, for programs that have no tests."""

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
    """A verdict and what it stands on.

    Attributes:
        verdict: ``holds``, ``refuted`` or ``inconclusive``.
        samples: how often samplers were called, the warm-up included.
        seed: of the coin that ordered the pairs; 0 where there is none.
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
        """Of ``inconclusive``, which kind it is; else empty."""
        return self._rule.cause

    @property
    def judged(self) -> int:
        """The pairs, or the samples of one arm, that the verdict stands on."""
        return self._state.samples

    @property
    def ratio(self) -> float | None:
        """The median of B / A; of a limit, the quantile over the limit, or ``None`` where that is 0."""
        return _divided(self._state.estimate, self._unit)

    @property
    def interval(self) -> tuple[float | None, float | None]:
        """The ratios that the samples do not reject; an end is ``None`` where they set none.

        Worked out when it is first asked for: pairs are replayed some dozen times, each as costly as judging them.
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
        TypeError: an argument, or what a sampler returned, is no number.
        ValueError: an argument makes no sense, or a sample is not positive.
    """
    if check_number("the tolerance", tolerance) < 0:
        raise ValueError(f"the tolerance is {tolerance!r}, less than 0")
    rule = PairRule.at_most(1 + tolerance, alpha=alpha, beta=beta, max_pairs=max_pairs, seed=seed)
    # The rule's ratio is a / b; B over A is asked for.
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
        sample_a: takes a sample of what is divided by: a positive number.
        sample_b: takes a sample of what is divided.
        value: the ratio B / A that is claimed.
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
    max_samples: int = 512,
    sessions: int = 3,
    least: int | None = None,
    pause: Callable[[], object] | None = None,
) -> Result:
    """Judge whether a quantile of the samples is at most, or at least, a limit.

    Args:
        sample: takes a sample, a finite number.
        at_most: the limit, where lower is better; or
        at_least: the limit, where higher is better: one of the two.
        quantile: which one: 0.5 is the median, 0.95 the 95th percentile.
        alpha: greatest chance to refute although it is on the good side.
        beta: greatest chance to say ``holds`` although it is not.
        max_samples: judged samples of all sessions, after which it is left undecided.
        sessions: that have to agree.
        least: judged samples of each session, where fewer would do; by default 1 with ``pause`` and 64 without, as
            sessions that follow at once have to be longer to see more than one level of the machine. Where the
            samples lie far from the limit, beyond two thirds or one and a half of it, fewer do.
        pause: called between sessions, which are worth the more the farther apart they are: sleep, or do other work.

    Raises:
        TypeError: an argument, or what the sampler returned, is no number.
        ValueError: an argument makes no sense, or a sample is not finite.
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
    return Result(rule, _run(rule, {"a": sample}, pause), 0, float(at_most or at_least or 0.0))


def _run(
    rule: PairRule | LimitRule,
    samplers: Mapping[Arm, Sampler],
    pause: Callable[[], object] | None = None,
) -> int:
    """Sample until the rule has decided; returns how many samples were taken."""
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
