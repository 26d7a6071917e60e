"""A limit for future runs, from the figures of a few runs.

A machine's level varies more between runs than samples do within a run, so the run is the unit: one median each. A
handful of runs determines neither the level nor the spread between runs well, and the limit must account for both
uncertainties. That is what a prediction interval is for: a confidence interval of the mean is too narrow even for one
more run, and a multiple of one run's own spread ignores the other runs.

The logarithms of the figures are assumed to be normal: times and rates are positive, disturbances multiply them, and
the limit cannot fall below 0.
"""

from __future__ import annotations

import functools
import math
from dataclasses import dataclass
from statistics import fmean, stdev
from typing import TYPE_CHECKING

from pytest_vperf.stats.rule import check_share, check_side, check_whole

if TYPE_CHECKING:
    from collections.abc import Sequence

    from pytest_vperf.stats.rule import Side

#: Fewer runs say nothing about their spread: with two, the limit would be some 150 standard deviations away.
LEAST_RUNS = 3
#: The least margin: the smallest difference that claims resolve, the default tolerance.
RESOLUTION = 0.02
#: A limit more than this many times away from the figures is useless.
MOST = 10.0
CONFIDENCE = 0.99
NEXT_RUNS = 20
_NODES = 200


@dataclass(frozen=True)
class Prediction:
    """The limit for future runs.

    Attributes:
        centre: the geometric mean of the figures, in their unit.
        spread: standard deviation of their logarithms; 0.05 is about 5 %.
        limit: the limit, in the same unit.
        margin: how far the limit is from the centre on the bad side, relative to the centre.
        floored: whether the resolution, not the spread, determined the margin.
    """

    centre: float
    spread: float
    limit: float
    margin: float
    floored: bool


def predict(
    figures: Sequence[float],
    side: Side,
    *,
    next_runs: int = NEXT_RUNS,
    confidence: float = CONFIDENCE,
    step: float = 0.0,
) -> Prediction:
    """The limit that the figures of all of the next runs meet with a given probability.

    It is ``exp(mean ± r s)``, mean and standard deviation s those of the logarithms, r from `factor`. The margin is
    at least `RESOLUTION`, and at least one step of the measurement: figures that happen to be equal, or nearly so, do
    not show that the next one will be.

    Args:
        figures: one per run, positive, at least `LEAST_RUNS`.
        side: ``at_most`` sets the limit above them, ``at_least`` below.
        next_runs: the number of future runs.
        confidence: the probability.
        step: the resolution of the measurement, in the unit of the figures; 0 if unlimited.

    Raises:
        ValueError: too few figures, one that is not positive, figures that differ too much for a useful limit, or an
            invalid argument.
    """
    check_side(side)
    if len(figures) < LEAST_RUNS:
        raise ValueError(f"{len(figures)} runs are too few: a limit takes {LEAST_RUNS}")
    for figure in figures:
        if not (math.isfinite(figure) and figure > 0):
            raise ValueError(f"a run's figure is {figure!r}, not a positive number")
    logs = [math.log(figure) for figure in figures]
    # Rounding errors of equal values must not look like spread.
    spread = stdev(logs) if min(figures) < max(figures) else 0.0
    reach = factor(len(figures), next_runs, confidence) * spread
    centre = math.exp(fmean(logs))
    sign = 1 if side == "at_most" else -1
    # One step below a figure of one step is 0, which cannot be a limit: use half a step then.
    one_step = abs(math.log(max(1 + sign * step / centre, 0.5)))
    floor = max(math.log1p(RESOLUTION), one_step)
    if max(reach, floor) > math.log(MOST):
        raise ValueError(
            f"{len(figures)} figures that differ this much, from {min(figures):.4g} to {max(figures):.4g}, give a "
            f"limit more than {MOST:g} times away, which is useless: take more runs, on a quieter machine"
        )
    limit = centre * math.exp(sign * max(reach, floor))
    return Prediction(centre, spread, limit, abs(limit / centre - 1), floored=floor > reach)


@functools.lru_cache(maxsize=64)
def factor(runs: int, next_runs: int, confidence: float) -> float:
    """The distance, in standard deviations, from the mean of some runs to a limit that holds for all of the next
    ones.

    The factor r of the one-sided prediction limit for all of m future observations of a normal population (Hahn,
    Additional Factors for Calculating Prediction Intervals for Samples from a Normal Distribution, JASA 65, 1970;
    Hahn and Meeker, Statistical Intervals, 1991, chapter 4): with n runs of mean x and standard deviation s, the next
    Y_1 … Y_m are all at most x + r s with

        P = E[ Phi(r U + Z / sqrt(n))^m ],   Z standard normal, (n - 1) U^2 chi-squared with n - 1 degrees of freedom.

    With m = 1 it is t sqrt(1 + 1/n), t Student's quantile. Bonferroni's inequality, the same with a quantile of
    1 - (1 - P)/m, would be half as much again: limits are wide because s may be too small, and that is a single risk
    shared by all m.

    Args:
        runs: n, at least 2.
        next_runs: m, at least 1.
        confidence: P, between 0.5 and 1.

    Raises:
        ValueError: an argument is invalid.
    """
    import numpy as np
    from scipy.optimize import brentq
    from scipy.special import log_ndtr
    from scipy.stats import chi2, t

    check_whole("runs", runs, 2)
    check_whole("next_runs", next_runs, 1)
    if not 0.5 < check_share("confidence", confidence) < 1:
        raise ValueError(f"confidence is {confidence!r}, not between 0.5 and 1")
    degrees = runs - 1
    z, z_weights = np.polynomial.hermite_e.hermegauss(_NODES // 2)
    z_weights = z_weights / z_weights.sum()
    # The mean over U is an integral of its quantiles over p in (0, 1). It is taken over w with p = w^4, since the
    # integrand is steepest at small p, where s is much too small.
    w, w_weights = np.polynomial.legendre.leggauss(_NODES)
    w = (w + 1) / 2
    u = np.sqrt(chi2.ppf(w**4, degrees) / degrees)
    u_weights = w_weights / 2 * 4 * w**3
    shift = z[:, None] / math.sqrt(runs)

    def excess(r: float) -> float:
        inside = np.exp(next_runs * log_ndtr(r * u[None, :] + shift))
        return float(z_weights @ inside @ u_weights) - confidence

    single = float(t.ppf(confidence, degrees)) * math.sqrt(1 + 1 / runs)
    each = float(t.ppf(1 - (1 - confidence) / next_runs, degrees)) * math.sqrt(1 + 1 / runs)
    return float(brentq(excess, single * 0.99, each * 1.01, xtol=1e-6))
