"""The judgement of one claim, from its first sample to its record, over one or several visits to its test.

It chooses the statistical rule for the criterion, and builds the plain record from the samples and the decision.

From what was sampled and judged to the plain record of it.
"""

from __future__ import annotations

import math
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Literal

from pytest_vperf.claims import careless
from pytest_vperf.claims.marks import why_unstable
from pytest_vperf.claims.plan import DEFAULT, Verdict
from pytest_vperf.claims.sampling import LEAST_EQUAL, Sampling, rough_time
from pytest_vperf.machine import lock, noise, noise_settings
from pytest_vperf.quantity import Quantity, usual_direction
from pytest_vperf.results.record import (
    ArmFigures,
    ClaimRecord,
    Hardware,
    Noise,
    TargetFacts,
    judged,
    mean_phases,
    pair_ratios,
    sound,
)
from pytest_vperf.results.run import now
from pytest_vperf.stats.evidence import quantile_interval
from pytest_vperf.stats.limit import LimitRule
from pytest_vperf.targets.sides import Side
from pytest_vperf.thresholds.consistency import CALIBRATED
from pytest_vperf.thresholds.judge import DEFAULTS, PART_OF_TIME, TIME_OF_RUN
from pytest_vperf.thresholds.match import ANY, EVERYWHERE, GALLERY

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping

    from pytest_vperf.claims.circumstances import Circumstances
    from pytest_vperf.claims.plan import Plan
    from pytest_vperf.claims.sampling import Sampler
    from pytest_vperf.claims.sweep import Sweep
    from pytest_vperf.machine.noise import NoiseEvidence
    from pytest_vperf.results.record import Observation
    from pytest_vperf.stats.rule import Arm, Rule, State
    from pytest_vperf.targets.base import Facts
    from pytest_vperf.thresholds.criterion import Criterion
    from pytest_vperf.thresholds.profile import Threshold


#: Sessions that begin within fewer seconds than this saw the machine in a single state, of which the reader is
#: warned.
SPAN = 60.0
#: A limit is out of date when even the end of the interval nearest to it is better by this share.
RECALIBRATE_BEYOND = 0.25


#: An interim record is made where it has so many more seconds of sampling than the last, and this share of them all:
#: it has every sample so far, and a file of all of them must not grow with the square of their number.
INTERIM, INTERIM_SHARE = 1.0, 0.2


def rule_of(judgement: Judgement, sessions: int, warm_up: Mapping[str, int]) -> Rule:
    """The rule that judges a claim's criterion; without a figure to judge by, one that only describes the samples.

    Args:
        judgement: the claim's.
        sessions: how many there will be.
        warm_up: the option of that name, if it is not the rule's own; a sweep has its own.

    Raises:
        ValueError: a sweep has too few loads to show a plateau.
    """
    criterion, plan, sweep = judgement.criterion, judgement.plan, judgement.sweep
    seed = judgement.context.seed
    errors = {"alpha": plan.alpha_each, "beta": plan.beta}
    if sweep is not None:
        from pytest_vperf.stats.plateau import PlateauRule

        sweep.rule = PlateauRule(
            len(sweep.over),
            value=criterion.figure if criterion else None,
            tolerance=(criterion.tolerance if criterion else None) or DEFAULTS["tolerance"],
            sessions=sessions,
            rounds=sweep.rounds,
            seed=seed,
            **errors,
        )
        return sweep.rule
    options: dict[str, float] = {"max_pairs": plan.pairs, "seed": seed}
    if criterion and not criterion.compares:
        options = {"sessions": sessions, "quantile": criterion.quantile}
        if plan.origins.get("pairs") != DEFAULT:
            options["max_samples"] = max(plan.pairs, sessions)
    rule = criterion.new_rule(**errors, **options, **warm_up) if criterion else None
    if rule is None:
        from pytest_vperf.stats.describe import DescribeRule

        return DescribeRule(paired=judgement.paired, seed=seed, **warm_up)
    return rule


def build_record(
    judgement: Judgement, *, verdict: Verdict, reason: str, target: str, cause: str
) -> ClaimRecord:
    """The record of a claim.

    Args:
        judgement: the samples, complete or not, and the criterion.
        verdict: how it ended.
        reason: why.
        target: the target that an error names; if empty, the targets that were started.
        cause: why the verdict is inconclusive, as a key.
    """
    context, sampling, paired = judgement.context, judgement.sampling, judgement.paired
    threshold, criterion = judgement.threshold, judgement.criterion
    state = sampling.rule.state
    samples = (
        pair_ratios(sampling.observations)
        if paired
        else [observation["value"] for observation in judged(sampling.observations)]
    )
    limit = criterion.figure if criterion else None
    estimate = _finite(state.estimate)
    gap = None if limit is None or estimate is None else _finite(estimate - limit)
    low, high = _finite(state.low), _finite(state.high)
    interval = None if low is None and high is None else [low, high]
    seen = [
        *sampling.facts,
        *(facts for facts in context.scope.facts if facts not in sampling.facts),
    ]
    statistic = "ratio" if paired else criterion.statistic if criterion else "median"
    record = ClaimRecord(
        name=judgement.name,
        verdict=verdict.value,
        unit="" if paired else sampling.unit or "",
        samples=samples,
        target=target or _target_text(sampling, seen),
        reason=reason,
        cause=cause,
        criterion=str(criterion) if criterion else "none",
        summary=threshold.summary if threshold else "",
        statistic="plateau" if judgement.sweep else statistic,
        threshold=limit,
        estimate=estimate,
        interval=interval,
        confidence=state.confidence if interval else None,
        gap=gap,
        gap_percent=_finite(100 * gap / abs(limit)) if gap is not None and limit else None,
        n=state.samples,
        observations=list(sampling.observations),
        sessions=list(sampling.sessions),
        phases=mean_phases(sampling.observations),
        source=str(threshold.source) if threshold and threshold.source else "",
        hardware=_hardware(threshold, context),
        targets=[_facts(facts, sampling, judgement.sides) for facts in seen],
        nodeid=context.nodeid,
        attempt=1,
        started_at=judgement.started_at,
        duration_s=round(sampling.elapsed, 3),
        waited_s=round(judgement.waited, 3),
        budget_s=judgement.plan.budget,
        plan=judgement.plan.as_dict(),
        seed=context.seed,
        noise=Noise(settings=judgement.settings, sessions=list(judgement.noise)),
        warnings=list(_warnings(samples, judgement, verdict, cause)),
        sweep=judgement.sweep.record(sampling.observations) if judgement.sweep else None,
        sides={str(arm): side for arm, side in judgement.sides.items()},
        arms=arms_of(sampling.observations, sampling.unit or "") if paired else {},
        better=_better(judgement),
        baseline=None,
        forecast=state.forecast if verdict is Verdict.INCONCLUSIVE else None,
        machine={},
    )
    return sound(record)


def _better(judgement: Judgement) -> Literal["lower", "higher", ""]:
    """What is better of the estimate: of a ratio as it is claimed, of a metric as its samples say or its limit."""
    criterion, sampling = judgement.criterion, judgement.sampling
    claimed = criterion.direction if criterion else ""
    if judgement.paired:
        return claimed
    return sampling.direction or claimed or usual_direction(sampling.unit or "")


#: Of the interval of an arm's own median, which is not judged.
_OF_ARM = 0.99


def arms_of(observations: Iterable[Observation], unit: str) -> dict[str, ArmFigures]:
    """What was measured of each arm of a comparison, by itself."""
    counted = judged(observations)
    found = {}
    for arm in ("a", "b"):
        own = [each for each in counted if each["arm"] == arm]
        if not own:
            continue
        error = (1 - _OF_ARM) / 2
        median = quantile_interval([each["value"] for each in own], 0.5, error, error)
        found[arm] = ArmFigures(
            estimate=median.estimate,
            interval=[median.low, median.high],
            confidence=_OF_ARM,
            unit=unit,
            n=len(own),
            phases=mean_phases(own, arm),
        )
    return found


def _finite(value: float | None) -> float | None:
    """The value, or ``None`` if it is infinite: an interval of few samples may be open, which JSON can only write as
    null."""
    return value if value is not None and math.isfinite(value) else None


def _target_text(sampling: Sampling, known: Iterable[Facts]) -> str:
    """The targets that were measured: those the samples started or ran a tool in, otherwise all of the test's."""
    arms = []
    for arm in sampling.arms:
        started = [facts.name for facts in sampling.targets.get(arm, ())]
        used = [use.target for use in sampling.tools.get(arm, ())]
        arms.append(", ".join(dict.fromkeys(started or used)))
    if all(arms):
        return " / ".join(arms)
    return ", ".join(dict.fromkeys(facts.name for facts in known))


def _facts(facts: Facts, sampling: Sampling, sides: Mapping[Arm, str]) -> TargetFacts:
    details = {str(key): str(value) for key, value in facts.details.items()}
    arms: list[str] = []
    for arm in sampling.arms:
        started = sampling.targets.get(arm, ())
        ran = [use for use in sampling.tools.get(arm, ()) if use.target == facts.name]
        # If the samples started machines, a tool ran in one of them; a match by name could be another machine.
        # What the set-up started of a side has its name.
        of_side = len(set(sides.values())) > 1 and facts.name.endswith(Side(sides[arm]).mark)
        if facts in started or (ran and not started) or (of_side and not started):
            arms.append(arm)
        for use in ran:
            name, program = f"tool_{use.program.name}", use.program
            details[name] = f"{use.version} ({program.origin}: {program.path})"
            details[f"{name}_sha256"] = program.sha256
    return TargetFacts(kind=facts.kind, name=facts.name, arms=arms, details=details)


def _hardware(threshold: Threshold | None, circumstances: Circumstances) -> Hardware:
    """The profile that judged the claim, and how the machine differs from the profile named for the run.

    The difference is recorded for every claim of the run, including those judged by the profile ``any``.
    """
    selection = circumstances.selection
    if threshold is None:
        profile, location = "", ""
    else:
        profile, location = threshold.profile, threshold.location
    differs = selection.named and bool(selection.mismatches)
    return Hardware(
        profile=profile,
        location=location,
        matches=not differs,
        mismatches=list(selection.mismatches) if differs else [],
    )


def _warnings(
    samples: list[float], judgement: Judgement, verdict: Verdict, cause: str
) -> Iterable[str]:
    """Warnings for the reader that do not change the verdict: ``KIND: figures of this claim: what to do``.

    The terminal has one line for all of a kind, without the figures.
    """
    threshold, criterion = judgement.threshold, judgement.criterion
    unit = "" if judgement.paired else judgement.sampling.unit or ""
    equal = len(samples) >= LEAST_EQUAL and min(samples) == max(samples)
    if equal and cause != "no variance" and not judgement.sampling.rule.discrete:
        yield (
            f"all {len(samples)} samples are exactly {Quantity(samples[0], unit)}: no variance at all is "
            "suspicious: is something cached or constant?"
        )
    yield from careless.warnings(
        judgement.samplers, judgement.plan, criterion, judgement.sampling, judgement.tracer
    )
    if criterion and criterion.is_absolute:
        yield from _weaker(judgement, verdict)
    if threshold and threshold.source and threshold.source.contested_by:
        yield f"contested: {threshold.source.contested_by}"
    if not threshold or not criterion or not criterion.is_limit or verdict is not Verdict.HOLDS:
        return
    better = _better_by(criterion, judgement.sampling.rule.state)
    fits = threshold.profile in EVERYWHERE or not judgement.context.selection.mismatches
    # What others publish is not ours to tighten.
    if fits and better > RECALIBRATE_BEYOND and threshold.profile != GALLERY:
        yield (
            f"better than claimed by more than {RECALIBRATE_BEYOND:.0%}: {threshold.location}: "
            f"{_renewal(threshold)}"
        )


def _weaker(judgement: Judgement, verdict: Verdict) -> Iterable[str]:
    """Reasons why this verdict on a limit is weaker than one from several sessions spread over the run."""
    if verdict not in (Verdict.HOLDS, Verdict.REFUTED):
        return
    sampling = judgement.sampling
    if len(sampling.sessions) < 2:
        yield "judged in one session, which is weaker: a machine's level moves between sessions"
    elif judgement.back_to_back:
        yield (
            f"the {len(sampling.sessions)} sessions ran back to back, which is weaker: "
            f"{judgement.back_to_back}"
        )
    elif sampling.span < SPAN:
        yield (
            f"sessions less than {SPAN:g} s apart, which is weaker: {rough_time(sampling.span)}: "
            "a longer run, with more tests, spreads them further"
        )


def _renewal(threshold: Threshold) -> str:
    """How to replace a limit that is out of date: a calibration leaves alone those that it did not make."""
    file = Path(threshold.location.rpartition(":")[0]).name
    name = "NAME" if threshold.profile == ANY else threshold.profile
    command = f"`vperf calibrate --hw={name}`"
    if file.removesuffix(".yaml").endswith(CALIBRATED):
        return f"renew it with {command}"
    return f"tighten the limit in {file}, or delete it there and run {command}"


def _better_by(criterion: Criterion, state: State) -> float:
    """How much better than the limit even the nearest end of the interval is, as a share of the limit."""
    limit, at_most = criterion.figure, criterion.side == "at_most"
    nearest = _finite(state.high if at_most else state.low)
    if nearest is None or not limit:
        return 0.0
    return (limit - nearest if at_most else nearest - limit) / abs(limit)


class Judgement:
    """A claim that is being judged.

    Attributes:
        name: the claim's.
        threshold: the threshold it is judged by; ``None`` if there is none for this hardware.
        plan: tolerance, error rates and budget.
        context: the circumstances of the latest visit.
        sampling: the samples.
        paired: whether two arms are compared.
        sweep: the loads swept over; ``None`` for other claims.
        criterion: the threshold's, with the plan's tolerance filled in.
        started_at: ISO time.
        waited: seconds spent waiting for the measuring lock, all visits together.
        back_to_back: why sessions ran back to back; empty if they did not.
        samplers: of the latest visit, by arm.
        tracer: what followed this process while it sampled; empty if nothing did.
        settings: the machine's settings that affect noise, at the start, and the tracer.
        sides: of a gate, by arm: the side that it samples; empty outside of one.
        noise: the noise measured during each session.
    """

    def __init__(
        self,
        name: str,
        threshold: Threshold | None,
        context: Circumstances,
        *,
        paired: bool,
        number: int = 1,
        any_programs: bool = False,
        sweep: Sweep | None = None,
        warmed_up: bool = False,
        sides: Mapping[Arm, str] | None = None,
    ) -> None:
        """Prepare to judge; ``number`` is the claim's position in its test, ``any_programs`` is as in `Sampling`.

        Samples that are ``warmed_up`` count from the first on.
        """
        self.name = name
        self.threshold = threshold
        self.plan = self._planned(context, number)
        self.context = context
        self.paired = paired
        self.sweep = sweep
        self.sides = dict(sides or {})
        self.started_at = now()
        self.waited = 0.0
        self.back_to_back = ""
        self.samplers: Mapping[Arm, Sampler] = {}
        self.tracer = ""
        self.settings = noise_settings.settings()
        self.noise: list[NoiseEvidence] = []
        self._interim = 0.0
        self.criterion = criterion = self._asserted()
        unit = criterion.unit if criterion and not paired else None
        against, planned = "the unit its threshold names" if unit else "the samples before it", 1
        if criterion and criterion.is_absolute:
            against, planned = str(criterion), context.sessions
        self._shares = planned == 1 and not context.ledger.once
        if context.time is not None:
            share, origin = context.time.seconds, TIME_OF_RUN
            if not self._shares:
                share, origin = context.time.equal(context.nodeid), PART_OF_TIME
            if share < self.plan.budget:
                origins = {**self.plan.origins, "budget": origin}
                self.plan = replace(self.plan, budget=float(f"{share:.3g}"), origins=origins)
        rule = rule_of(self, planned, {"warm_up": 0} if warmed_up else {})
        if isinstance(rule, LimitRule):
            if self.plan.origins.get("pairs") == DEFAULT:
                self.plan = replace(self.plan, pairs=rule.most)
            if rule.too_few:
                allowed = f"{self.plan.pairs} are allowed {self.plan.allow_more('pairs')}"
                rule.stop("too few samples", f"{rule.too_few}, and {allowed}")
        self.sampling = Sampling(
            name,
            rule,
            paired=paired,
            unit=unit,
            against=against,
            budget=self.plan.budget,
            budget_told=self.plan.budget_told,
            allow_more=self.plan.allow_more("budget"),
            planned=planned,
            progress=context.progress,
            criterion=criterion,
            any_programs=any_programs,
            load=sweep.facts if sweep else None,
            settle=self._settle,
        )

    #: See `Sampling`.
    _settle: Callable[[Quantity], tuple[Criterion, Rule]] | None = None

    def _planned(self, context: Circumstances, number: int) -> Plan:
        return context.plan(self.threshold, number)

    def _asserted(self) -> Criterion | None:
        """What the samples have to prove; ``None`` if nothing."""
        return self.threshold.criterion.settled(self.plan.tolerance) if self.threshold else None

    @property
    def paused(self) -> bool:
        """Whether another session has to follow."""
        return self.sampling.rule.paused or self.sampling.yielded

    @property
    def decided(self) -> bool:
        """Whether sampling has ended."""
        return self.sampling.rule.state.decided

    @property
    def next_session(self) -> str:
        """``session 2 of 3``."""
        if self.sampling.planned == 1:
            return "its next part of the time (--claims-time)"
        return f"session {len(self.sampling.sessions) + 1} of {self.sampling.planned}"

    def visit(self, samplers: Mapping[Arm, Sampler], context: Circumstances) -> None:
        """Run the next session, or all remaining ones if the test cannot be visited again.

        Raises:
            lock.LockTimeout: another measurement held the machine for too long.
            whatever `Sampling.run` raises.
        """
        __tracebackhide__ = True
        self.context, self.samplers = context, samplers
        self.tracer = self.tracer or careless.tracing(samplers.values())
        if self.tracer:
            self.settings["tracer"] = self.tracer
        self.sampling.yielded = False
        if self.decided:
            return
        self.sampling.share = None
        with lock.measuring(lambda holder: context.progress.waiting(self.name, holder)) as waited:
            self.waited += waited
            if context.time is not None and self._shares and not context.ledger.once:
                self.sampling.share = context.time.visit(context.nodeid)
            self._session(samplers)
            while self.paused and context.ledger.once:
                self.back_to_back = context.ledger.once
                self._session(samplers)
        if self.sampling.share is not None and self.sampling.share.holds_back:
            self.sampling.yielded = True

    def _session(self, samplers: Mapping[Arm, Sampler]) -> None:
        __tracebackhide__ = True
        self.sampling.rule.resume()
        before = noise.snapshot()
        try:
            self.sampling.run(samplers, self.context.scope)
        finally:
            self.noise.append(noise.evidence(before, noise.snapshot()))

    def conclusion(self) -> ClaimRecord:
        """The record of a claim whose sampling is over."""
        if self.threshold is None:
            return self.record(Verdict.NOT_COMPARABLE, self._no_threshold())
        if self.criterion and self.criterion.reason:
            reason = f"{self.criterion}: {self.criterion.reason}"
            return self.record(Verdict.NOT_COMPARABLE, reason)
        if other := self._emulated() or self._of_other_hardware():
            return self.record(Verdict.NOT_COMPARABLE, other)
        return self.judged()

    def judged(self) -> ClaimRecord:
        """The record of a claim that was held against something, and whose sampling is over."""
        state = self.sampling.rule.state
        if constant := self.sampling.without_variance:
            return self.record(Verdict.INCONCLUSIVE, constant, cause="no variance")
        if state.decision != "inconclusive" and (unstable := why_unstable(self.name)):
            return self.record(Verdict.INCONCLUSIVE, unstable, cause="unstable")
        reason = state.reason
        if self.sweep and (who := self.sweep.bottleneck(self.sampling.observations)):
            reason += f"; {who}"
        return self.record(Verdict(state.decision), reason, cause=state.cause)

    def interim(self) -> ClaimRecord | None:
        """The record, so far, of a claim whose next session is to come, as it is should that never come; ``None`` if
        little was sampled since the last call that returned one.
        """
        elapsed = self.sampling.elapsed
        if self.decided or elapsed - self._interim < max(INTERIM, INTERIM_SHARE * elapsed):
            return None
        self._interim = elapsed
        reason = f"the run ended before {self.next_session}"
        return build_record(
            self, verdict=Verdict.INCONCLUSIVE, reason=reason, target="", cause="interrupted"
        )

    def cut_short(self, what: str) -> ClaimRecord:
        """The record of a claim whose next visit never came, because the test or the run (``what``) ended."""
        if self.decided:
            return self.conclusion()
        reason = f"the {what} ended before {self.next_session}"
        return self.record(Verdict.INCONCLUSIVE, reason, cause="interrupted")

    def record(
        self, verdict: Verdict, reason: str, *, target: str = "", cause: str = ""
    ) -> ClaimRecord:
        """Stop sampling, and return the record so far; ``target`` is the target that an error names."""
        self.sampling.rule.stop("", reason)
        return build_record(self, verdict=verdict, reason=reason, target=target, cause=cause)

    def _emulated(self) -> str:
        """Which emulated machine was measured, whose speed is not that of any hardware; empty if there is none, or if
        the threshold says that this does not matter.
        """
        if self.threshold is None or self.threshold.emulated:
            return ""
        seen = (*self.sampling.facts, *self.context.scope.facts)
        details = [each.details for each in seen]
        labs = [of.get("lab") for of in details if of.get("emulated") == "yes"]
        where = f"lab {labs[0]}" if labs and labs[0] else "machine"
        if self.context.selection.emulated or labs:
            return f"the {where} is emulated: its speed says nothing about hardware"
        return ""

    def _of_other_hardware(self) -> str:
        """Which machine was measured that is known by SSH alone, where the figure is of a profile's hardware, which
        was held against the machine of the run; empty if there is none.
        """
        if self.threshold is None or self.threshold.profile in EVERYWHERE:
            return ""
        seen = (*self.sampling.facts, *self.context.scope.facts)
        named = next((each.name for each in seen if each.kind == "machine"), "")
        if not named:
            return ""
        return (
            f"{named} is known by SSH alone, and its hardware is not held against profile {self.threshold.profile}: a"
            f" figure of it belongs into the profile {ANY}"
        )

    def _no_threshold(self) -> str:
        selection = self.context.selection
        used = ", ".join(selection.names) or "none"
        others = selection.holders(self.name)
        known = " and ".join(filter(None, [", ".join(others[:-1]), others[-1]])) if others else ""
        has = f"; {known} {'has' if len(others) == 1 else 'have'} one" if known else ""
        return f"no threshold for {self.name} on this hardware (profiles: {used}){has}"
