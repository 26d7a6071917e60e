"""The sampling loop: take samples until the rule has decided or the time is over, and keep every one.

What is measured stays in the `Sampling`, also when a sampler raises or Ctrl-C ends it (design rule 10).
"""

from __future__ import annotations

import contextlib
import time
from typing import TYPE_CHECKING, Protocol

from pytest_vperf.quantity import DimensionError, Quantity
from pytest_vperf.results.record import Observation

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from pytest_vperf.stats.rule import Arm, Rule, State
    from pytest_vperf.targets.base import Facts
    from pytest_vperf.targets.scope import Scope

    Sampler = Callable[[], Quantity]


class Progress(Protocol):
    """Who is told how sampling goes. Every method may be called often, and must be quick."""

    def waiting(self, claim: str, holder: str) -> None:
        """Another measurement has the machine."""
        ...

    def sampled(
        self, claim: str, state: State, unit: str, noun: str, elapsed: float, budget: float
    ) -> None:
        """A sample was taken; the state's figures are in ``unit``, it counts in ``noun``: sample or pair."""
        ...

    def done(self) -> None:
        """The claim ended."""
        ...


class Sampling:
    """The samples of one claim.

    Attributes:
        observations: every sample so far, in order.
        unit: the unit they are kept in: the threshold's, or the first sample's.
        over_budget: whether the time was over before the rule had decided. Its clock starts when all warm-up is
            taken, without warm-up after the first sample of each arm: a first call may fetch a kernel or start an
            engine, which is no sampling.
        targets: of each arm, the facts of what its samples started.
    """

    def __init__(
        self,
        claim: str,
        rule: Rule,
        samplers: Mapping[Arm, Sampler],
        *,
        unit: str | None,
        against: str,
        budget: float,
        scope: Scope,
        progress: Progress,
    ) -> None:
        """Prepare to sample.

        Args:
            claim: the claim's name, for messages.
            rule: the judge.
            samplers: what to call for each arm the rule may ask for.
            unit: the threshold's unit; ``None`` where there is none to compare with.
            against: what the samples are held against, for messages.
            budget: seconds after the warm-up; the sample that passes them is the last.
            scope: owner of what the samplers start.
            progress: who is told.
        """
        self.claim = claim
        self.rule = rule
        self.unit = unit
        self.observations: list[Observation] = []
        self.over_budget = False
        self.targets: dict[Arm, list[Facts]] = {}
        self._samplers = samplers
        self._against = against
        self._budget = budget
        self._scope = scope
        self._progress = progress
        self._began: float | None = None
        self._warmed_up: float | None = None

    @property
    def elapsed(self) -> float:
        """Seconds since the first sample began."""
        return 0.0 if self._began is None else time.monotonic() - self._began

    @property
    def spent(self) -> float:
        """Seconds of the budget that are over."""
        return 0.0 if self._warmed_up is None else time.monotonic() - self._warmed_up

    def run(self) -> None:
        """Sample until the rule has decided or the budget is over.

        Raises:
            TypeError: a sampler returned something other than a `Quantity`.
            DimensionError: a sample measures something else than the threshold, or than the sample before.
            whatever a sampler raises, and what closing its targets raises.
        """
        __tracebackhide__ = True
        self._began = time.monotonic()
        while not self.rule.state.decided:
            if self.spent > self._budget:
                self.over_budget = True
                return
            self._take()
            if self._warmed_up is None and self._warm:
                self._warmed_up = time.monotonic()
            paired = len(self._samplers) > 1
            self._progress.sampled(
                self.claim,
                self.rule.state,
                "" if paired else self.unit or "",
                "pair" if paired else "sample",
                self.spent,
                self._budget,
            )

    @property
    def _warm(self) -> bool:
        taken = {observation["arm"] for observation in self.observations}
        return not self.rule.warming_up and taken >= self._samplers.keys()

    def _take(self) -> None:
        __tracebackhide__ = True
        arm, warm_up = self.rule.next(), self.rule.warming_up
        mark, at = self._scope.mark, self.elapsed
        try:
            value = self._in_unit(self._samplers[arm]())
            self.observations.append(
                Observation(
                    order=len(self.observations),
                    at=round(at, 6),
                    arm=arm,
                    value=value.value,
                    unit=value.unit,
                    warm_up=warm_up,
                    parts=dict(value.parts),
                )
            )
            self.rule.add(value.value)
            known = self.targets.setdefault(arm, [])
            known += [facts for facts in self._scope.facts_since(mark) if facts not in known]
        except BaseException:
            # The sampler's own error is the one to report, whatever closing says.
            with contextlib.suppress(Exception):
                self._scope.close_since(mark)
            raise
        self._scope.close_since(mark)

    def _in_unit(self, value: object) -> Quantity:
        __tracebackhide__ = True
        if not isinstance(value, Quantity):
            example = f"Quantity({value!r}, 'ms')" if isinstance(value, (int, float)) else ""
            raise TypeError(
                f"the sampler of claim {self.claim!r} returned {value!r} ({type(value).__name__}): "
                f"return a Quantity, a number with its unit{', such as ' if example else ''}{example}"
            )
        if self.unit is None:
            self.unit = value.unit
        try:
            return value.to(self.unit)
        except DimensionError as error:
            raise DimensionError(
                f"claim {self.claim!r}: a sample of {value} cannot be held against {self._against}: {error}"
            ) from None
