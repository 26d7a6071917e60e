"""The judge of separate runs: those of a fresh build against stored ones, for when both cannot be in one run.

A machine's level varies more between runs than samples do within a run, so the run is the unit: one figure each,
stored and fresh. They are compared by their ranks, since the levels of a machine are not normal: they lie in groups,
and have outliers. If the old kernel, binary or image still exists, run both and use `pytest_vperf.stats.pair`:
it resolves differences that are invisible here.
"""

from __future__ import annotations

import bisect
import math
from dataclasses import dataclass
from statistics import median
from typing import TYPE_CHECKING, Literal

from pytest_vperf.stats.rule import check_error, check_positive, count

if TYPE_CHECKING:
    from collections.abc import Sequence

    from pytest_vperf.stats.rule import Decision

#: Numbers of fresh runs after which a verdict is possible while they are still being added; each has its share of the
#: errors.
LOOKS = (1, 2, 3, 5, 8)
#: Up to so many pairs of runs the exact law of the ranks is used, beyond it the normal approximation.
_EXACT = 2_500
_BESIDE = 1e-12  # of a logarithm: breaks a tie


@dataclass(frozen=True)
class RunsCompared:
    """What separate runs show of a change.

    Attributes:
        decision: whether the fresh ones are no worse.
        reason: why, in a line.
        ratio: of the medians, fresh / stored.
        low: lower end of the interval for the ratio of a shift between the two (Hodges and Lehmann 1963); ``None`` if
            so few runs do not bound it.
        high: upper end.
        confidence: the level of the interval.
        visible: the smallest change that these runs could show, as a share: half the interval. ``None`` if they could
            show none.
        missing: how many more runs of each side it takes to show any.
    """

    decision: Decision
    reason: str
    ratio: float
    low: float | None
    high: float | None
    confidence: float
    visible: float | None
    missing: int


def compare_runs(
    stored: Sequence[float],
    fresh: Sequence[float],
    tolerance: float,
    better: Literal["lower", "higher", ""],
    *,
    alpha: float = 0.01,
    beta: float = 0.01,
    looks: int = 1,
) -> RunsCompared:
    """Compare the figures of fresh runs with those of stored ones.

    The test is Mann and Whitney's, one-sided: after dividing by the limit, "fresh runs are no larger" and "no
    smaller". Ties count as evidence for neither. It needs no assumption but that, without a change, any order of all
    the runs is as likely as any other: that they were taken under the same conditions.

    Args:
        stored: one figure a run, positive.
        fresh: likewise.
        tolerance: how much worse counts as no worse: 0.05 is a twentieth.
        better: what is better of the figure; empty: every change is for the worse.
        alpha: greatest chance that a build that is no worse is refuted.
        beta: greatest chance that a worse one holds.
        looks: how often a verdict is looked for while fresh runs are added; the errors are divided by it
            (Bonferroni).

    Raises:
        ValueError: there is no run on a side, a figure is not positive, or an argument is invalid.
    """
    old = [math.log(check_positive("a run's figure", each)) for each in stored]
    new = [math.log(check_positive("a run's figure", each)) for each in fresh]
    if not old or not new:
        raise ValueError(f"{count(len(new), 'fresh run')} and {count(len(old), 'stored run')}")
    worse = check_error("alpha", alpha) / looks / (1 if better else 2)
    fine = check_error("beta", beta) / looks
    limit = math.log1p(check_positive("the tolerance", tolerance))
    # Of a figure that is better the lower it is, the lower end refutes and the upper one proves.
    errors = (fine, worse) if better == "higher" else (worse, fine)
    low, high = _at_least(old, new, errors[0]), _at_most(old, new, errors[1])
    if better:
        up, down = (high, low) if better == "lower" else (-low, -high)
        refuted, holds = down > limit + _BESIDE, up < limit - _BESIDE
    else:
        other = _at_most(old, new, worse)
        refuted = low > limit + _BESIDE or other < -limit - _BESIDE
        low, high = _at_least(old, new, fine), _at_most(old, new, fine)
        holds = -limit + _BESIDE < low and high < limit - _BESIDE
    shift = median(new) - median(old)
    half = max(shift - low, high - shift)
    missing = _missing(len(old), len(new), min(worse, fine))
    of = f"{count(len(new), 'run')} against {len(old)}"
    decision: Decision = "refuted" if refuted else "holds" if holds else "inconclusive"
    if decision == "refuted":
        reason = f"{of}: the fresh ones rank beyond the tolerance"
    elif decision == "holds":
        reason = f"{of}: the fresh ones rank within the tolerance"
    elif missing:
        reason = f"{of} show no change of any size: {count(missing, 'more run')} of each would"
    else:
        reason = (
            f"{of}: changes below {100 * math.expm1(half):.2g} % are not visible between these runs"
        )
    return RunsCompared(
        decision=decision,
        reason=reason,
        ratio=math.exp(shift),
        low=math.exp(low) if math.isfinite(low) else None,
        high=math.exp(high) if math.isfinite(high) else None,
        confidence=1 - worse - fine,
        visible=math.expm1(half) if math.isfinite(half) else None,
        missing=missing,
    )


def _missing(old: int, new: int, error: float) -> int:
    """How many more runs of each side it takes for the most extreme order of all to be as unlikely as an error."""
    more = 0
    while math.comb(old + new + 2 * more, new + more) * error < 1:
        more += 1
    return more


def _at_least(old: Sequence[float], new: Sequence[float], error: float) -> float:
    """The lower end of an interval for the shift of the logarithms: all that a test rejects lies below it."""
    shifts = sorted(x - y for x in new for y in old)
    rejected = bisect.bisect_right(
        shifts, error, key=lambda shift: chance_of_ranks([x - shift for x in new], old)
    )
    # A test that rejects the k-th of the differences rejects every smaller shift than the next one; but none may be
    # extreme enough.
    return -math.inf if _missing(len(old), len(new), error) else shifts[rejected]


def _at_most(old: Sequence[float], new: Sequence[float], error: float) -> float:
    """The upper end, likewise."""
    return -_at_least([-each for each in old], [-each for each in new], error)


def chance_of_ranks(new: Sequence[float], old: Sequence[float]) -> float:
    """The probability of ranks of ``new`` at least as high if both have the same distribution.

    The exact law assumes values without ties, so ties are broken against the alternative.
    """
    from scipy.stats import mannwhitneyu

    exact = len(new) * len(old) <= _EXACT
    found = mannwhitneyu(
        [each - _BESIDE for each in new],
        old,
        alternative="greater",
        method="exact" if exact else "asymptotic",
    )
    return float(found.pvalue)
