"""A claim: a name, its threshold on this hardware, and the way from samples to a verdict."""

from __future__ import annotations

from contextlib import suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING

from pytest_vperf.claims.criterion import Limit, Ratio, Unknown
from pytest_vperf.claims.recording import build_record
from pytest_vperf.claims.rules import rule_for
from pytest_vperf.claims.sampling import Sampling
from pytest_vperf.claims.verdict import Verdict
from pytest_vperf.machine import lock
from pytest_vperf.results.run import now
from pytest_vperf.targets.base import Unavailable

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from pytest_vperf.claims.hardware import Selection
    from pytest_vperf.claims.sampling import Progress, Sampler
    from pytest_vperf.claims.thresholds import Threshold
    from pytest_vperf.results.record import ClaimRecord
    from pytest_vperf.stats.rule import Arm
    from pytest_vperf.targets.scope import Scope


class ClaimError(TypeError):
    """A claim is used in a way its criterion does not have."""


@dataclass(frozen=True)
class Circumstances:
    """What a claim is judged under.

    Attributes:
        selection: the profiles that this run judges by.
        budget: seconds of sampling, counted once the warm-up is over.
        seed: of random orders.
        scope: owner of what samples start.
        nodeid: the test.
        progress: who is told how it goes.
        keep: takes the record of a claim that an error or Ctrl-C ended.
        conclude: takes the record of a claim that reached a verdict; may raise to fail or skip the test.
    """

    selection: Selection
    budget: float
    seed: int
    scope: Scope
    nodeid: str
    progress: Progress
    keep: Callable[[ClaimRecord], None]
    conclude: Callable[[ClaimRecord], None]


class Claim:
    """What a test asserts. Made by the ``claim`` fixture.

    Attributes:
        name: as in the threshold files.
        threshold: the one for this hardware; ``None`` where only other hardware has one.
    """

    def __init__(self, name: str, circumstances: Circumstances) -> None:
        """Look the claim up.

        Raises:
            UnknownClaim: no threshold file has this name; the message has the nearest one.
        """
        __tracebackhide__ = True
        self.name = name
        try:
            self.threshold: Threshold | None = circumstances.selection.find(name)
        except LookupError as error:
            raise error.with_traceback(None) from None  # its text says all
        self._circumstances = circumstances

    def holds(self, sample: Sampler) -> ClaimRecord:
        """Prove that what ``sample`` measures stays on the good side of the claim's limit.

        Args:
            sample: takes one sample; called until the evidence decides. Targets it starts through a fixture
                are ended after each call, outside the measured time.

        Returns:
            the record; where the verdict fails the test, an exception is raised instead.

        Raises:
            ClaimError: the claim compares two things.
            whatever ``sample`` raises, except `Unavailable`.
        """
        __tracebackhide__ = True
        if self.threshold is not None and isinstance(self.threshold.criterion, Ratio):
            raise ClaimError(
                f"claim {self.name!r} is a comparison ({self.threshold.criterion}, "
                f"{self.threshold.location}): use claim({self.name!r}).compares(sample, to=other)"
            )
        return self._judge({"a": sample}, paired=False)

    def compares(self, sample: Sampler, *, to: Sampler) -> ClaimRecord:
        """Prove that what ``sample`` measures, divided by what ``to`` measures, stays within the claim's ratio.

        The two are sampled in turn, in an order shuffled with the run's seed.

        Raises:
            ClaimError: the claim has a limit for one thing.
            whatever the samplers raise, except `Unavailable`.
        """
        __tracebackhide__ = True
        if self.threshold is not None and isinstance(self.threshold.criterion, (Limit, Unknown)):
            raise ClaimError(
                f"claim {self.name!r} is no comparison ({self.threshold.criterion}, "
                f"{self.threshold.location}): use claim({self.name!r}).holds(sample)"
            )
        return self._judge({"a": sample, "b": to}, paired=True)

    def _judge(self, samplers: Mapping[Arm, Sampler], *, paired: bool) -> ClaimRecord:
        __tracebackhide__ = True
        here = self._circumstances
        criterion = self.threshold.criterion if self.threshold else None
        unit, against = None, "the samples before it"
        if isinstance(criterion, Limit):
            unit, against = criterion.threshold.unit, str(criterion)
        elif isinstance(criterion, Unknown):
            unit, against = criterion.unit, "the unit its threshold names"
        sampling = Sampling(
            self.name,
            rule_for(criterion, paired=paired, seed=here.seed),
            samplers,
            unit=unit,
            against=against,
            budget=here.budget,
            scope=here.scope,
            progress=here.progress,
        )
        started_at, waited = now(), 0.0
        missing: ClaimRecord | None = None

        def record(verdict: Verdict, reason: str, target: str = "") -> ClaimRecord:
            return build_record(
                self.name,
                self.threshold,
                sampling,
                here,
                verdict=verdict,
                reason=reason,
                target=target,
                paired=paired,
                started_at=started_at,
                waited=waited,
            )

        try:
            with lock.measuring(lambda holder: here.progress.waiting(self.name, holder)) as waited:
                sampling.run()
        except Unavailable as error:
            missing = record(Verdict.NOT_MEASURED, str(error), error.target)
        except lock.LockTimeout as error:
            missing = record(Verdict.NOT_MEASURED, str(error))
        except BaseException as error:
            verdict = Verdict.INCONCLUSIVE if sampling.observations else Verdict.NOT_MEASURED
            text = f"{type(error).__name__}: {error}".rstrip(": ")
            # The error itself must be seen, whatever the disk and the record's text say.
            with suppress(OSError, ValueError):
                target = str(getattr(error, "target", "") or "")
                here.keep(record(verdict, f"error: {text}", target))
            raise
        finally:
            here.progress.done()
        finished = missing or record(*self._verdict(sampling))
        here.conclude(finished)
        return finished

    def _verdict(self, sampling: Sampling) -> tuple[Verdict, str]:
        """The verdict on complete samples, and its reason in one line."""
        state = sampling.rule.state
        if self.threshold is None:
            return Verdict.NOT_COMPARABLE, self._no_threshold()
        if isinstance(self.threshold.criterion, Unknown):
            return Verdict.NOT_COMPARABLE, f"no published figure: {self.threshold.criterion.reason}"
        if sampling.over_budget:
            taken = len(sampling.observations)
            reason = (
                f"budget of {self._circumstances.budget:g} s over after {taken} "
                f"sample{'' if taken == 1 else 's'}"
            )
            if state.forecast is not None and state.forecast > state.samples:
                reason += f", about {state.forecast} needed"
            return Verdict.INCONCLUSIVE, f"{reason}; {state.reason}" if state.reason else reason
        return Verdict(state.decision), state.reason

    def _no_threshold(self) -> str:
        here = self._circumstances
        used = ", ".join(profile.name for profile in here.selection.profiles) or "none"
        others = here.selection.holders(self.name)
        known = " and ".join(filter(None, [", ".join(others[:-1]), others[-1]])) if others else ""
        has = f"; {known} {'has' if len(others) == 1 else 'have'} one" if known else ""
        return f"no threshold for {self.name} on this hardware (profiles: {used}){has}"
