"""From what was sampled and judged to the plain record of it."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from pytest_vperf.claims.consistency import ANY
from pytest_vperf.claims.criterion import Limit, Ratio
from pytest_vperf.claims.verdict import Verdict
from pytest_vperf.quantity import Quantity
from pytest_vperf.results.record import (
    ClaimRecord,
    Hardware,
    TargetFacts,
    judged,
    mean_phases,
    pair_ratios,
)

if TYPE_CHECKING:
    from collections.abc import Iterable

    from pytest_vperf.claims.claim import Circumstances
    from pytest_vperf.claims.sampling import Sampling
    from pytest_vperf.claims.thresholds import Threshold
    from pytest_vperf.stats.rule import State
    from pytest_vperf.targets.base import Facts

#: A limit is called out of date when even the interval's end nearest to it is better by this share.
RECALIBRATE_BEYOND = 0.25


def build_record(
    name: str,
    threshold: Threshold | None,
    sampling: Sampling,
    circumstances: Circumstances,
    *,
    verdict: Verdict,
    reason: str,
    target: str,
    paired: bool,
    started_at: str,
    waited: float,
) -> ClaimRecord:
    """The record of a claim.

    Args:
        name: the claim's.
        threshold: what it was judged by; ``None`` where nothing was.
        sampling: what was measured, whole or not.
        circumstances: under which it was judged.
        verdict: how it ended.
        reason: why.
        target: which target an error names; empty where none does, then it is what was started.
        paired: whether it compares two arms.
        started_at: ISO time.
        waited: seconds for the measuring lock.
    """
    criterion = threshold.criterion if threshold else None
    state = sampling.rule.state
    samples = (
        pair_ratios(sampling.observations)
        if paired
        else [observation["value"] for observation in judged(sampling.observations)]
    )
    limit = None
    if isinstance(criterion, Limit):
        limit = criterion.threshold.value
    elif isinstance(criterion, Ratio):
        limit = criterion.threshold
    estimate = _finite(state.estimate)
    gap = None if limit is None or estimate is None else estimate - limit
    low, high = _finite(state.low), _finite(state.high)
    interval = None if low is None or high is None else [low, high]
    return ClaimRecord(
        name=name,
        verdict=verdict.value,
        unit="" if paired else sampling.unit or "",
        samples=samples,
        target=target or _target_text(sampling, circumstances.scope.facts, paired),
        reason=reason,
        criterion=str(criterion) if criterion else "none",
        summary=threshold.summary if threshold else "",
        statistic=_statistic(threshold, paired),
        threshold=limit,
        estimate=estimate,
        interval=interval,
        confidence=state.confidence if interval else None,
        gap=gap,
        gap_percent=100 * gap / abs(limit) if gap is not None and limit else None,
        n=state.samples,
        observations=list(sampling.observations),
        phases=mean_phases(sampling.observations),
        source=str(threshold.source) if threshold and threshold.source else "",
        hardware=_hardware(threshold, circumstances),
        targets=[_facts(facts) for facts in circumstances.scope.facts],
        nodeid=circumstances.nodeid,
        started_at=started_at,
        duration_s=round(sampling.elapsed, 3),
        waited_s=round(waited, 3),
        budget_s=circumstances.budget,
        seed=circumstances.seed,
        warnings=list(_warnings(samples, threshold, verdict, state, circumstances)),
    )


def _finite(value: float | None) -> float | None:
    """An interval may be open while samples are few; JSON has no word for that but null."""
    return value if value is not None and math.isfinite(value) else None


def _statistic(threshold: Threshold | None, paired: bool) -> str:
    if paired:
        return "ratio"
    if threshold is not None and isinstance(threshold.criterion, Limit):
        return threshold.criterion.statistic
    return "mean"


def _target_text(sampling: Sampling, known: Iterable[Facts], paired: bool) -> str:
    """What was measured: what the samples started, else everything the test has."""
    arms = [
        ", ".join(dict.fromkeys(facts.name for facts in sampling.targets.get(arm, ())))
        for arm in (("a", "b") if paired else ("a",))
    ]
    if all(arms):
        return " / ".join(arms)
    return ", ".join(dict.fromkeys(facts.name for facts in known))


def _facts(facts: Facts) -> TargetFacts:
    details = {str(key): str(value) for key, value in facts.details.items()}
    return TargetFacts(kind=facts.kind, name=facts.name, details=details)


def _hardware(threshold: Threshold | None, circumstances: Circumstances) -> Hardware:
    """By whose figures it was judged, and how the machine differs from the profile that was named for the run.

    The difference is told of every claim of the run, also of one that the profile ``any`` judges.
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
    samples: list[float],
    threshold: Threshold | None,
    verdict: Verdict,
    state: State,
    circumstances: Circumstances,
) -> Iterable[str]:
    """What a reader should know although it does not change the verdict."""
    unit = ""
    if threshold is not None and isinstance(threshold.criterion, Limit):
        unit = threshold.criterion.threshold.unit
    if len(samples) >= 3 and min(samples) == max(samples):
        yield (
            f"all {len(samples)} samples are exactly {Quantity(samples[0], unit)}: no variance at all is "
            "suspicious, is something cached or constant?"
        )
    if (
        verdict is Verdict.HOLDS
        and threshold is not None
        and isinstance(threshold.criterion, Limit)
        and (threshold.profile == ANY or not circumstances.selection.mismatches)
        and state.low is not None
        and state.high is not None
    ):
        limit, at_most = threshold.criterion.threshold.value, threshold.criterion.side == "at_most"
        nearest = state.high if at_most else state.low
        better = (limit - nearest if at_most else nearest - limit) / abs(limit) if limit else 0.0
        if better > RECALIBRATE_BEYOND:
            yield (
                f"better than claimed by more than {RECALIBRATE_BEYOND:.0%}: "
                f"recalibrate {threshold.location}"
            )
