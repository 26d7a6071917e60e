"""The self-check of one metric: many decisions about its sampler against itself, and against a slower self.

Every decision is made like a claim's, with `Sampling` and `PairRule`, a coin of its own, and samples that no other
decision uses. Only the first one has a warm-up.
"""

from __future__ import annotations

import dataclasses
import math
import random
import time
from typing import TYPE_CHECKING, cast

from pytest_vperf.claims.sampling import Sampling
from pytest_vperf.machine import lock
from pytest_vperf.quantity import Quantity
from pytest_vperf.stats import self_check
from pytest_vperf.stats.pair import PairRule

if TYPE_CHECKING:
    from collections.abc import Mapping

    from pytest_vperf.claims.claim import Slower
    from pytest_vperf.claims.marks import Decided, Result
    from pytest_vperf.claims.sampling import Progress, Sampler, Snapshot
    from pytest_vperf.stats.rule import Arm, Side
    from pytest_vperf.targets.scope import Scope


@dataclasses.dataclass(frozen=True)
class Request:
    """The parameters of the check of every metric.

    Attributes:
        decisions: the number of A/A decisions.
        pairs: greatest number of pairs of each of them.
        tolerance: the slower self is slower by twice this; ``None`` means the claim's own.
        usual_tolerance: the tolerance of claims that have none.
        budget: seconds per metric, not counting the wait for other measurements.
    """

    decisions: int
    pairs: int
    tolerance: float | None
    usual_tolerance: float
    budget: float


@dataclasses.dataclass(frozen=True)
class Metric:
    """The metric to check.

    Attributes:
        claim: the claim's name.
        sample: takes one sample.
        slower: takes one with more work; if ``None``, samples are scaled instead.
        side: ``at_least`` if higher is better.
        tolerance: the tolerance of decisions about a slower self.
        pairs: greatest number of pairs of each of them.
    """

    claim: str
    sample: Sampler
    slower: Slower | None
    side: Side
    tolerance: float
    pairs: int


class _TimeOver(Exception):
    """The budget of the metric is spent; the decision in progress is discarded."""


class SelfCheck:
    """The self-check of one metric.

    Attributes:
        result: the result so far; filled decision by decision.
        discrete: whether equal samples of the metric are no surprise.
    """

    def __init__(
        self,
        metric: Metric,
        request: Request,
        result: Result,
        *,
        scope: Scope,
        progress: Progress,
        seed: int,
    ) -> None:
        self.result = result
        self.discrete = False
        self._metric = metric
        self._request = request
        self._scope = scope
        self._progress = progress
        self._seed = seed
        self._unit: str | None = None
        self._began: float | None = None

    def run(self) -> None:
        """Make all decisions, or as many as the budget allows.

        Raises:
            lock.LockTimeout: another measurement held the machine for too long.
            whatever `Sampling.run` raises.
        """
        __tracebackhide__ = True
        with lock.measuring(
            lambda holder: self._progress.waiting(self._metric.claim, holder)
        ) as waited:
            self.result["waited_s"] = round(waited, 3)
            began = time.monotonic()
            try:
                for number, about_slower in enumerate(
                    self_check.order(self._request.decisions), start=1
                ):
                    self.result["decided"].append(self._decide(number, about_slower))
            except _TimeOver:
                pass
            finally:
                self.result["duration_s"] = round(time.monotonic() - began, 3)
                self._progress.done()

    def _decide(self, number: int, about_slower: bool) -> Decided:
        __tracebackhide__ = True
        seed = random.Random(f"{self._seed} {self._metric.claim} {number}").getrandbits(32)  # nosec B311 # an order, not a secret
        sampling = Sampling(
            self._metric.claim,
            self._rule(seed, about_slower, warm_up=int(number == 1)),
            paired=True,
            unit=self._unit,
            against="the samples before it",
            budget=math.inf,  # the rule is limited by its pairs; `_timely` limits the time of all decisions
            planned=1,
            progress=_CheckProgress(self._progress, number, self._request, self),
        )
        slower = self._slower if about_slower else self._metric.sample
        samplers: Mapping[Arm, Sampler] = {
            "a": self._timely(slower),
            "b": self._timely(self._metric.sample),
        }
        sampling.run(samplers, self._scope)
        self._unit = self.result["unit"] = sampling.unit or ""
        self.discrete = sampling.rule.discrete
        state = sampling.rule.state
        return {
            "about": "slower" if about_slower else "A/A",
            "verdict": state.decision,
            "cause": state.cause,
            "pairs": state.samples,
            "seed": seed,
            "arms": "".join(each["arm"] for each in sampling.observations),
            "values": [each["value"] for each in sampling.observations],
        }

    def _rule(self, seed: int, about_slower: bool, warm_up: int) -> PairRule:
        metric = self._metric
        tolerance, most = (metric.tolerance, metric.pairs) if about_slower else (0.0, None)
        threshold = 1 + tolerance
        return PairRule.at_most(
            1 / threshold if metric.side == "at_least" else threshold,
            metric.side,
            alpha=self_check.SIDE_ERROR,
            beta=self_check.SIDE_ERROR,
            max_pairs=most or self._request.pairs,
            warm_up=warm_up,
            seed=seed,
            effect=math.log1p(metric.tolerance),
        )

    @property
    def spent(self) -> float:
        """Seconds since the first sample was taken, so that preparations do not count."""
        return 0.0 if self._began is None else time.monotonic() - self._began

    def _timely(self, sample: Sampler) -> Sampler:
        def timely() -> Quantity:
            __tracebackhide__ = True
            if self.spent > self._request.budget:
                raise _TimeOver
            value = sample()
            if self._began is None:
                self._began = time.monotonic()
            return value

        return timely

    def _slower(self) -> Quantity:
        """A sample that is worse by twice the tolerance: by real work if the test supports it, else by arithmetic."""
        __tracebackhide__ = True
        metric, more = self._metric, 2 * self._metric.tolerance
        if metric.slower is not None:
            return metric.slower(more)
        value: object = metric.sample()
        if not isinstance(value, Quantity):
            return cast("Quantity", value)  # `Sampling` says what is wrong with it
        factor = 1 / (1 + more) if metric.side == "at_least" else 1 + more
        parts = tuple((name, part * factor) for name, part in value.breakdown)
        return dataclasses.replace(value, value=value.value * factor, breakdown=parts)


class _CheckProgress:
    """Shows the progress of a decision as a part of the whole check."""

    def __init__(self, shown: Progress, number: int, request: Request, check: SelfCheck) -> None:
        self._shown = shown
        whole = request.decisions + self_check.slower_decisions(request.decisions)
        self._session = f"self-check, decision {number} of {whole}"
        self._budget = request.budget
        self._check = check

    def waiting(self, claim: str, holder: str) -> None:
        self._shown.waiting(claim, holder)

    def note(self, text: str) -> None:
        self._shown.note(text)

    def sampled(self, standing: Snapshot) -> None:
        self._shown.sampled(
            dataclasses.replace(
                standing,
                session=self._session,
                spent=self._check.spent,
                budget=self._budget,
                need=None,
            )
        )

    def done(self) -> None:
        self._shown.done()
