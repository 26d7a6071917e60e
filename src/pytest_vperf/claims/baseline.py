"""A claim against a stored baseline: its figure is held against those of runs that were kept, too.

The run is the unit (`pytest_vperf.stats.baseline`): this one, and earlier ones of the same build, are the fresh ones.
What the claim is about makes no difference, a limit, a ratio or a plateau: each has one figure a run.
"""

from __future__ import annotations

from dataclasses import dataclass
from statistics import median
from typing import TYPE_CHECKING, NamedTuple

from pytest_vperf.claims.claim import Claim
from pytest_vperf.claims.plan import Verdict
from pytest_vperf.quantity import Quantity, QuantityError, conversion_factor
from pytest_vperf.results.identity import differences, identity
from pytest_vperf.results.levels import levels
from pytest_vperf.results.record import OfBaseline, sound
from pytest_vperf.results.store.model import StoreProblem
from pytest_vperf.stats.baseline import LOOKS, compare_runs
from pytest_vperf.thresholds.criterion import of_change

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from pytest_vperf.claims.circumstances import Circumstances
    from pytest_vperf.claims.claim import Slower
    from pytest_vperf.claims.sampling import Sampler
    from pytest_vperf.claims.sweep import Sweep
    from pytest_vperf.results.levels import Level
    from pytest_vperf.results.record import ClaimRecord
    from pytest_vperf.results.store.choosing import Chosen
    from pytest_vperf.stats.rule import Arm


class NoBaseline(Exception):
    """There are no figures to hold one against; says why, and what to do."""


class _Sides(NamedTuple):
    """The figures of a claim, each run's, in the unit of the newest."""

    stored: list[float]
    fresh: list[float]


@dataclass(frozen=True)
class Baseline:
    """The runs that a run is held against.

    Attributes:
        word: as the option has it: a name, a commit, a file.
        stored: its runs, without those of this build.
        same: earlier runs of this build; none where nobody can tell that they are: files had changed.
        fingerprint: what the machine of this run is, as far as it is known.
    """

    word: str
    stored: Chosen
    same: Chosen | None
    fingerprint: Callable[[], Mapping[str, str]]

    def has(self, fingerprint: Mapping[str, str]) -> bool:
        """Whether one of the runs was on a machine."""
        return any(identity(run.fingerprint) == identity(fingerprint) for run in self.stored.runs)

    def check_machine(self) -> None:
        """Make sure that one of the runs was on this machine.

        Raises:
            NoBaseline: none was.
        """
        here = self.fingerprint()
        if not self.has(here):
            differ = differences(self.stored.runs[0].fingerprint, here)
            told = "; ".join(f"{key}: {one or '-'} / {other or '-'}" for key, one, other in differ)
            raise NoBaseline(f"the runs of {self.word} are of another machine than this: {told}")

    def sides(self, level: Level) -> _Sides:
        """The figures of a claim, the fresh ones the oldest first, with that of this run at the end.

        Raises:
            NoBaseline: no run of the baseline has any.
        """
        self.check_machine()
        stored = self._figures(self.stored, level)
        if not stored:
            raise NoBaseline(
                f"no run of {self.word} has a figure of this claim: keep one with --claims-save"
            )
        same = self._figures(self.same, level) if self.same is not None else []
        return _Sides(stored, [*reversed(same), level.value])

    def _figures(self, chosen: Chosen, level: Level) -> list[float]:
        machine = identity(self.fingerprint())
        found = []
        try:
            for run in chosen.runs:
                own = chosen.level(run, level.claim)
                if own is not None and identity(run.fingerprint) == machine:
                    found.append(own.value * conversion_factor(own.unit, level.unit))
        except QuantityError as error:
            raise NoBaseline(f"the runs of {chosen.word} are in another unit: {error}") from None
        except StoreProblem as error:  # a gate with several heads
            raise NoBaseline(str(error)) from None
        return found


class BaselineClaim(Claim):
    """A claim of a run with a baseline."""

    def __init__(self, name: str, circumstances: Circumstances, baseline: Baseline) -> None:
        """Look the claim up."""
        super().__init__(name, circumstances)
        self._baseline = baseline

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
        record = super()._judge(
            samplers, paired=paired, any_programs=any_programs, sweep=sweep, tell=False
        )
        ledger = self._circumstances.ledger
        key = next(key for key, each in ledger.ended.items() if each is record)
        if key not in ledger.beside and (level := next(iter(levels([record])), None)) is not None:
            ledger.beside[key] = found = self._against(record, level)
            self._circumstances.keep(found)
        for each in (record, ledger.beside.get(key)):  # both are judged before one ends the test
            if each is not None:
                self._circumstances.repeat(each)
        return record

    def _against(self, record: ClaimRecord, level: Level) -> ClaimRecord:
        plan = self._circumstances.plan(self.threshold, 1, gate=True)
        criterion = of_change(level.better, plan.tolerance)
        word, share = self._baseline.word, Quantity(plan.tolerance * 100, "%")
        of_baseline = OfBaseline(word=word, unit=level.unit, runs=0, visible=None, missing=0)
        found: ClaimRecord = {
            **record,
            "verdict": Verdict.NOT_MEASURED.value,
            "unit": "",
            "samples": [],
            "cause": "",
            "criterion": (
                f"no worse than {word} by more than {share}"
                if level.better
                else f"within {share} of {word}"
            ),
            "summary": "",
            "statistic": "ratio",
            "threshold": criterion.figure,
            "estimate": None,
            "interval": None,
            "confidence": None,
            "gap": None,
            "gap_percent": None,
            "n": 0,
            "observations": [],
            "sessions": [],
            "phases": {},
            "source": "",
            "duration_s": 0.0,
            "waited_s": 0.0,
            "plan": plan.as_dict(),
            "warnings": [],
            "sweep": None,
            "arms": {},
            "better": level.better,
            "baseline": of_baseline,
            "forecast": None,
        }
        try:
            sides = self._baseline.sides(level)
        except NoBaseline as error:
            return {**found, "reason": str(error)}
        fresh = sides.fresh[: max(look for look in LOOKS if look <= len(sides.fresh))]
        if min(*sides.stored, *fresh) <= 0:
            found["verdict"] = Verdict.NOT_COMPARABLE.value
            return {**found, "reason": "a figure is 0 or less: there is no ratio"}
        compared = compare_runs(
            sides.stored,
            fresh,
            plan.tolerance,
            level.better,
            alpha=plan.alpha_each,
            beta=plan.beta,
            looks=len(LOOKS),
        )
        middle, limit = median(sides.stored), criterion.figure or 1.0
        decided = compared.decision != "inconclusive"
        ends: Sequence[float | None] = (compared.low, compared.high)
        bounded = any(end is not None for end in ends)
        return sound(
            {
                **found,
                "verdict": compared.decision,
                "reason": compared.reason,
                "cause": ""
                if decided
                else "too few samples"
                if compared.missing
                else "too close to call",
                "samples": [each / middle for each in fresh],
                "n": len(fresh),
                "estimate": compared.ratio,
                "interval": list(ends) if bounded else None,
                "confidence": compared.confidence if bounded else None,
                "gap": compared.ratio - limit,
                "gap_percent": 100 * (compared.ratio / limit - 1),
                "baseline": {
                    **of_baseline,
                    "runs": len(sides.stored),
                    "visible": compared.visible,
                    "missing": compared.missing,
                },
                "forecast": len(fresh) + compared.missing if compared.missing else None,
            }
        )
