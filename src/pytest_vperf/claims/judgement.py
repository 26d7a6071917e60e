"""The way of one claim from its first sample to its record, in one visit to its test or in several."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pytest_vperf.claims.criterion import Limit, NearLimit, Saturates, Unknown
from pytest_vperf.claims.recording import build_record
from pytest_vperf.claims.rules import rule_for, rule_for_sweep
from pytest_vperf.claims.sampling import Sampling
from pytest_vperf.claims.self_check_marks import why_unstable
from pytest_vperf.claims.verdict import Verdict
from pytest_vperf.machine import lock, noise, noise_settings
from pytest_vperf.results.run import now

if TYPE_CHECKING:
    from collections.abc import Mapping

    from pytest_vperf.claims.circumstances import Circumstances
    from pytest_vperf.claims.sampling import Sampler
    from pytest_vperf.claims.sweep import Sweep
    from pytest_vperf.claims.thresholds import Threshold
    from pytest_vperf.machine.noise import NoiseEvidence
    from pytest_vperf.results.record import ClaimRecord
    from pytest_vperf.stats.rule import Arm, Rule


class Judgement:
    """A claim that is being judged.

    Attributes:
        name: the claim's.
        threshold: what it is judged by; ``None`` where nothing is.
        plan: tolerance, error rates and budget.
        here: the circumstances of the visit that measured last.
        sampling: what was measured.
        paired: whether two arms are compared.
        sweep: the loads that are swept over; ``None`` where none are.
        criterion: the threshold's, with the plan's tolerance in it.
        started_at: ISO time.
        waited: seconds for the measuring lock, all visits together.
        back_to_back: whether a session followed another one at once, because the test could not be visited again.
        settings: what of the machine's settings decides about noise, at the start.
        noise: what disturbed each session.
    """

    def __init__(
        self,
        name: str,
        threshold: Threshold | None,
        here: Circumstances,
        *,
        paired: bool,
        number: int = 1,
        any_programs: bool = False,
        sweep: Sweep | None = None,
    ) -> None:
        """Prepare to judge; ``number`` says which claim of its test it is, ``any_programs`` is `Sampling`'s."""
        self.name = name
        self.threshold = threshold
        self.plan = here.plan(threshold, number)
        self.here = here
        self.paired = paired
        self.sweep = sweep
        self.started_at = now()
        self.waited = 0.0
        self.back_to_back = False
        self.settings = noise_settings.settings()
        self.noise: list[NoiseEvidence] = []
        self.criterion = criterion = self.plan.settle(threshold.criterion) if threshold else None
        unit, against = None, "the samples before it"
        if isinstance(criterion, Limit):
            unit, against = criterion.threshold.unit, str(criterion)
        elif isinstance(criterion, (NearLimit, Saturates)):
            unit, against = criterion.value.unit, str(criterion)
        elif isinstance(criterion, Unknown) and not paired:
            unit, against = criterion.unit, "the unit its threshold names"
        in_sessions = isinstance(criterion, (Limit, NearLimit, Saturates))
        planned = here.sessions if in_sessions else 1
        rule: Rule
        if sweep is not None:
            rule = rule_for_sweep(criterion, self.plan, sweep, seed=here.seed, sessions=planned)
        else:
            sessions = here.sessions
            rule = rule_for(criterion, self.plan, paired=paired, seed=here.seed, sessions=sessions)
        self.sampling = Sampling(
            name,
            rule,
            paired=paired,
            unit=unit,
            against=against,
            budget=self.plan.budget,
            planned=planned,
            progress=here.progress,
            criterion=criterion,
            any_programs=any_programs,
            load=sweep.facts if sweep else None,
        )

    @property
    def paused(self) -> bool:
        """Whether another session has to follow."""
        return self.sampling.rule.paused

    @property
    def next_session(self) -> str:
        """``session 2 of 3``."""
        return f"session {len(self.sampling.sessions) + 1} of {self.sampling.planned}"

    def visit(self, samplers: Mapping[Arm, Sampler], here: Circumstances) -> None:
        """Take the next session, or, where the test is not visited again, all that are left.

        Raises:
            lock.LockTimeout: another measurement did not end.
            whatever `Sampling.run` raises.
        """
        __tracebackhide__ = True
        self.here = here
        with lock.measuring(lambda holder: here.progress.waiting(self.name, holder)) as waited:
            self.waited += waited
            self._session(samplers)
            while self.paused and not here.ledger.revisited:
                self.back_to_back = True
                self._session(samplers)

    def _session(self, samplers: Mapping[Arm, Sampler]) -> None:
        __tracebackhide__ = True
        self.sampling.rule.resume()
        before = noise.snapshot()
        try:
            self.sampling.run(samplers, self.here.scope)
        finally:
            self.noise.append(noise.evidence(before, noise.snapshot()))

    def conclusion(self) -> ClaimRecord:
        """The record of a claim whose sampling is over."""
        state = self.sampling.rule.state
        if self.threshold is None:
            return self.record(Verdict.NOT_COMPARABLE, self._no_threshold())
        if isinstance(self.criterion, Unknown):
            reason = f"no published figure: {self.criterion.reason}"
            return self.record(Verdict.NOT_COMPARABLE, reason)
        if state.decision != "inconclusive" and (unstable := why_unstable(self.name)):
            return self.record(Verdict.INCONCLUSIVE, unstable, cause="unstable")
        reason = state.reason
        if self.sweep and (who := self.sweep.bottleneck(self.sampling.observations)):
            reason += f"; {who}"
        return self.record(Verdict(state.decision), reason, cause=state.cause)

    def cut_short(self, what: str) -> ClaimRecord:
        """The record of a claim that waited for a session that never came; ``what`` ended: the test or the run."""
        reason = f"the {what} ended before {self.next_session}"
        return self.record(Verdict.INCONCLUSIVE, reason, cause="interrupted")

    def record(
        self, verdict: Verdict, reason: str, *, target: str = "", cause: str = ""
    ) -> ClaimRecord:
        """The record of what was measured; ``target`` is what an error names. No sampling follows."""
        self.sampling.rule.stop("", reason)
        return build_record(self, verdict=verdict, reason=reason, target=target, cause=cause)

    def _no_threshold(self) -> str:
        selection = self.here.selection
        used = ", ".join(profile.name for profile in selection.profiles) or "none"
        others = selection.holders(self.name)
        known = " and ".join(filter(None, [", ".join(others[:-1]), others[-1]])) if others else ""
        has = f"; {known} {'has' if len(others) == 1 else 'have'} one" if known else ""
        return f"no threshold for {self.name} on this hardware (profiles: {used}){has}"
