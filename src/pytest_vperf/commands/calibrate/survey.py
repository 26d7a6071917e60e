"""The claims of tests that ``vperf calibrate`` runs: those about a limit are measured, none is judged.

Also decides which claims get a limit, and which are left alone.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from pytest_vperf.claims.claim import Claim
from pytest_vperf.claims.judgement import Judgement
from pytest_vperf.claims.plan import Verdict
from pytest_vperf.claims.sampling import Sampling
from pytest_vperf.quantity import Quantity
from pytest_vperf.stats.describe import SurveyRule
from pytest_vperf.stats.limit import WARM_UP
from pytest_vperf.thresholds.hardware import UnknownClaim
from pytest_vperf.thresholds.match import ANY

if TYPE_CHECKING:
    from collections.abc import Mapping

    from pytest_vperf.claims.circumstances import Circumstances
    from pytest_vperf.claims.claim import Slower
    from pytest_vperf.claims.sampling import Sampler
    from pytest_vperf.claims.sweep import Sweep
    from pytest_vperf.results.record import ClaimRecord
    from pytest_vperf.stats.rule import Arm
    from pytest_vperf.thresholds.hardware import Selection
    from pytest_vperf.thresholds.profile import Threshold


def why_left_alone(
    threshold: Threshold | None,
    profile: str,
    *,
    paired: bool,
    swept: bool = False,
    model: Threshold | None = None,
) -> str:
    """Why a claim gets no limit for this machine; empty if it gets one.

    A limit that is published or written by hand is a promise, and is not adapted to the machine. A calibration sets
    only limits for which no file that judges here has a figure, and those of an earlier calibration.

    Args:
        threshold: the claim's, from the profile or from ``any``; ``None`` if neither has one.
        profile: the name of the profile that is calibrated.
        paired: whether the test compares two targets.
        swept: whether it sweeps a load.
        model: the claim's threshold on other hardware, used for its meaning if ``threshold`` is ``None``.
    """
    meant = threshold or model
    criterion = meant.criterion if meant else None
    if swept or (criterion and criterion.method == "saturates"):
        return "a level where more load no longer helps, which has two sides; a limit has one"
    if paired or (criterion and criterion.compares):
        return "a comparison needs no calibration: it holds on every machine or on none"
    if meant is None or criterion is None:
        return ""
    where, source = meant.location, meant.source
    if criterion.is_absolute and not criterion.is_limit:
        return f"near a value, which has two sides; a limit has one ({where})"
    if criterion.statistic != "median":
        return f"about {criterion.statistic}, but only medians are calibrated ({where})"
    if threshold is None:
        return ""
    if source is not None and source.calibration is not None:
        return ""
    if criterion.is_limit and threshold.profile == ANY and profile != ANY:
        return f"has a limit for every machine ({where})"
    if threshold.profile == profile and source is not None:
        return f"{'its figure is published' if criterion.is_limit else 'is published'} ({where})"
    if threshold.profile == profile and criterion.is_limit:
        return f"has a limit that is not from a calibration ({where}); remove it to have the claim calibrated"
    return ""


#: The record's ``criterion`` of a claim that is not measured.
LEFT_ALONE = "left alone"
#: The ``criterion`` of one that is, by the direction of its samples; ``none`` if they have none.
DIRECTIONS = {"lower": "lower is better", "higher": "higher is better", "": "none"}
#: The record's ``reason`` of one that is, if nothing went wrong.
MEASURED = "measured for a calibration"


class Survey(Judgement):
    """A claim about one target that is measured like a limit, in sessions spread over the run."""

    def __init__(
        self, claim: SurveyedClaim, context: Circumstances, *, number: int, warmed_up: bool
    ) -> None:
        """Prepare to measure; ``number`` and ``warmed_up`` are as in `Judgement`."""
        super().__init__(claim.name, claim.threshold, context, paired=False, number=number)
        model = claim.model.criterion if claim.model else None
        unit = model.unit if model else None
        self.criterion = None
        self.sampling = Sampling(
            claim.name,
            SurveyRule(sessions=context.sessions, warm_up=0 if warmed_up else WARM_UP),
            paired=False,
            unit=unit,
            against=f"the unit {unit} of {claim.model.location}" if claim.model else "the samples",
            budget=self.plan.budget,
            planned=context.sessions,
            progress=context.progress,
            criterion=model,
        )
        self._direction = model.direction if model else ""
        self._directions: set[str] = set()

    def visit(self, samplers: Mapping[Arm, Sampler], context: Circumstances) -> None:
        """As `Judgement.visit`, but also note the direction of the samples."""
        __tracebackhide__ = True
        super().visit({arm: self._noting(each) for arm, each in samplers.items()}, context)

    def conclusion(self) -> ClaimRecord:
        """The record of a claim whose sampling is over."""
        return self.record(Verdict.NOT_COMPARABLE, MEASURED)

    def record(
        self, verdict: Verdict, reason: str, *, target: str = "", cause: str = ""
    ) -> ClaimRecord:
        """As `Judgement.record`, with the direction as the criterion."""
        made = super().record(verdict, reason, target=target, cause=cause)
        known = self._directions - {""} or {self._direction}
        made["criterion"] = DIRECTIONS[known.pop()] if len(known) == 1 else "none"
        return made

    def _noting(self, sampler: Sampler) -> Sampler:
        def noted() -> Quantity:
            __tracebackhide__ = True
            value = sampler()
            if isinstance(value, Quantity):  # else Sampling says what is wrong with it
                self._directions.add(value.direction)
            return value

        return noted


class SurveyedClaim(Claim):
    """Measures a claim that can get a limit, and leaves every other one alone.

    Attributes:
        model: the threshold with the claim's unit and side; that of other hardware if this one has none. ``None`` if
            no file has the claim.
    """

    def __init__(self, name: str, circumstances: Circumstances, *, profile: str) -> None:
        """Look the claim up; a name that no file has is calibrated for the first time.

        Args:
            name: the claim's.
            circumstances: of the test.
            profile: the name of the profile that is calibrated.
        """
        __tracebackhide__ = True
        try:
            super().__init__(name, circumstances)
        except UnknownClaim:
            self.threshold = None
            self._circumstances = circumstances
        self._profile = profile
        self.model = self.threshold or _elsewhere(name, circumstances.selection)

    def _check(self, method: str) -> None:
        """Accept every method: claims with other criteria are left alone."""

    def _begin(
        self,
        *,
        paired: bool,
        number: int,
        any_programs: bool,
        sweep: Sweep | None,
        warmed_up: bool,
    ) -> Judgement:
        return Survey(self, self._circumstances, number=number, warmed_up=warmed_up)

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
        why = why_left_alone(
            self.threshold,
            self._profile,
            paired=paired,
            swept=sweep is not None,
            model=self.model,
        )
        if not why:
            return super()._judge(samplers, paired=False)
        context = self._circumstances
        key = context.ledger.key(self.name)
        known = context.ledger.ended.get(key)
        if known is not None:  # in an earlier visit to the test
            context.repeat(known)
            return known
        judgement = Judgement(self.name, self.threshold, context, paired=paired)
        record = judgement.record(Verdict.NOT_MEASURED, why)
        record["criterion"] = LEFT_ALONE
        context.ledger.ended[key] = record
        context.conclude(record)
        return record


def _elsewhere(name: str, selection: Selection) -> Threshold | None:
    """The first threshold of other hardware that has a figure, else the first that names a unit."""
    known = [selection.known[each].find(name) for each in selection.holders(name)]
    found = [each for each in known if each is not None]
    limits = [each for each in found if each.criterion.is_limit]
    return next(iter(limits or found), None)
