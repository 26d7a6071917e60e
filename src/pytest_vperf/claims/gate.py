"""A claim in a gate: what its test samples is compared between two sides, whatever the claim says of it.

``claim(NAME).holds(sample)`` is judged as *no worse than base*: the sampler that the test gave is called for a target
of each side in turn. The limit of the claim, if it has one here, is judged on head too. A claim that compares two
things by itself is judged on head as in other runs.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from pytest_vperf.claims.claim import Claim
from pytest_vperf.claims.judgement import Judgement, rule_of
from pytest_vperf.claims.plan import Verdict
from pytest_vperf.claims.rounds import TakenRounds
from pytest_vperf.quantity import Quantity, usual_direction
from pytest_vperf.targets.sides import INHERITED
from pytest_vperf.thresholds.criterion import of_change

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from pytest_vperf.claims.circumstances import Circumstances
    from pytest_vperf.claims.claim import Slower
    from pytest_vperf.claims.plan import Plan
    from pytest_vperf.claims.sampling import Sampler
    from pytest_vperf.claims.sweep import Sweep
    from pytest_vperf.results.record import ClaimRecord
    from pytest_vperf.stats.rule import Arm, Rule
    from pytest_vperf.targets.sides import Side, Sides
    from pytest_vperf.thresholds.criterion import Criterion


class NothingToCompare(Exception):
    """The sides cannot be compared by what a claim samples; says why."""


class GateJudgement(Judgement):
    """Whether head is no worse than base, by what one claim samples."""

    def _planned(self, context: Circumstances, number: int) -> Plan:
        return context.plan(self.threshold, number, gate=True)

    def _asserted(self) -> Criterion:
        # Which direction is better, the first sample may say; the limit says it before.
        own = self.threshold.criterion.direction if self.threshold else ""
        return of_change(own or "lower", self.plan.tolerance)

    def _settle(self, value: Quantity) -> tuple[Criterion, Rule]:
        own = self.threshold.criterion.direction if self.threshold else ""
        direction = value.direction or own or usual_direction(value.unit)
        self.criterion = of_change(direction, self.plan.tolerance)
        return self.criterion, rule_of(self, 1, {})

    def conclusion(self) -> ClaimRecord:
        """The record of a claim whose sampling is over."""
        return self.judged()

    def record(
        self, verdict: Verdict, reason: str, *, target: str = "", cause: str = ""
    ) -> ClaimRecord:
        """Stop sampling, and return the record so far; neither summary nor source are about a comparison of sides."""
        limit, self.threshold = self.threshold, None
        try:
            return super().record(verdict, reason, target=target, cause=cause)
        finally:
            self.threshold = limit


class GatedClaim(Claim):
    """A claim of a gate. A name that no threshold file has is judged against base alone."""

    def __init__(self, name: str, circumstances: Circumstances) -> None:
        """Look the claim up."""
        try:
            super().__init__(name, circumstances)
        except LookupError:
            self.name, self.judged = name, False
            self.threshold, self.has_figure = None, False
            self._circumstances = circumstances
        self._arms: Mapping[Arm, str] = {}

    @property
    def _has_limit(self) -> bool:
        """Whether the claim says something of head by itself."""
        criterion = self.threshold.criterion if self.threshold else None
        return self.has_figure and not (criterion and criterion.of_builds)

    @property
    def _sides(self) -> Sides:
        return self._circumstances.sides

    def _judge(
        self,
        samplers: Mapping[Arm, Sampler],
        *,
        paired: bool,
        slower: Slower | None = None,
        any_programs: bool = False,
        sweep: Sweep | None = None,
        tell: bool = True,
    ) -> ClaimRecord:
        __tracebackhide__ = True
        records = []
        if not paired and sweep is None:
            records += [self._against_base(samplers["a"], head) for head in self._sides.heads]
        if isinstance(samplers["a"], TakenRounds):
            pass  # taken of all sides together
        elif paired or sweep is not None or self._has_limit:
            sample = sweep.sample if sweep is not None else None
            for head in self._sides.heads:
                if sweep is not None and sample is not None:
                    sweep.sample = self._sides.sampler(head, sample)
                self._arms = dict.fromkeys(samplers, head.name)
                on_head = {arm: self._sides.sampler(head, each) for arm, each in samplers.items()}
                records.append(
                    super()._judge(
                        on_head, paired=paired, any_programs=any_programs, sweep=sweep, tell=False
                    )
                )
        for record in records:  # all are judged before one ends the test
            self._circumstances.repeat(record)
        return records[0]

    def _against_base(self, sample: Sampler, head: Side) -> ClaimRecord:
        __tracebackhide__ = True
        self._arms = {"a": head.name, "b": self._sides.base.name}
        sides = self._sides
        sides.made_a_difference = sides.differ_in(*INHERITED)  # nobody can tell who reads these
        taken: set[str] = set()

        def of(side: Side) -> Callable[[], Quantity]:
            take = sides.sampler(side, sample)

            def taking() -> Quantity:
                __tracebackhide__ = True
                if isinstance(sample, TakenRounds):
                    raise NothingToCompare(
                        "its benchmark took its rounds before it was compared: sample with rounds(benchmark, …)"
                    )
                value = take()
                if isinstance(value, Quantity) and value.signed and value.value <= 0:
                    raise NothingToCompare(
                        f"its samples may be 0 or less, as {value}: they have no ratio"
                    )
                taken.add(side.name)
                if len(taken) > 1 and not sides.made_a_difference:
                    keys = sorted({key for each in sides.all for key in each.settings})
                    raise NothingToCompare(
                        f"nothing that it samples depends on what the sides differ in: {', '.join(keys)}"
                    )
                return value

            return taking

        return super()._judge(
            {"a": of(head), "b": of(sides.base)}, paired=True, any_programs=True, tell=False
        )

    def _begin(
        self,
        *,
        paired: bool,
        number: int,
        any_programs: bool,
        sweep: Sweep | None,
        warmed_up: bool,
    ) -> Judgement:
        """A new judgement, without any samples."""
        compared = len(set(self._arms.values())) > 1
        return (GateJudgement if compared else Judgement)(
            self.name,
            self.threshold,
            self._circumstances,
            paired=paired,
            number=number,
            any_programs=any_programs,
            sweep=sweep,
            warmed_up=warmed_up,
            sides=self._arms,
        )

    def _missing(self, judgement: Judgement, error: BaseException) -> ClaimRecord | None:
        if isinstance(judgement, GateJudgement) and isinstance(error, NothingToCompare):
            return judgement.record(Verdict.NOT_COMPARABLE, str(error))
        return super()._missing(judgement, error)
