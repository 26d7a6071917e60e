"""A limit for runs to come, from the figures of a few runs.

The level of a machine moves by more between runs than samples within a run spread, so the run is the unit: one median
each. With a handful of them neither the level nor the spread between runs is known well, and both uncertainties
belong into the limit. That is what a prediction interval is for; a confidence interval of the mean is too narrow for
a single further run, and a multiple of one run's own spread knows nothing of the other runs.

The logarithms of the figures are taken for normal. Times and rates are positive, what disturbs them multiplies them,
and a limit can not fall below 0 that way.
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

#: Fewer runs say nothing of their spread: with two, the limit would be some 150 spreads away.
LEAST_RUNS = 3
#: The limit is no nearer to the figures: the smallest difference that claims resolve, the default tolerance.
RESOLUTION = 0.02
#: A limit more than so many times away from the figures is none.
MOST = 10.0
CONFIDENCE = 0.99
NEXT_RUNS = 20
_NODES = 200


@dataclass(frozen=True)
class Prediction:
    """What is expected of further runs.

    Attributes:
        centre: the geometric mean of the figures, in their unit.
        spread: standard deviation of their logarithms; 0.05 is about 5 %.
        limit: in the same unit.
        margin: how far the limit is from the centre on the bad side, relative to the centre.
        floored: whether the resolution, and not the spread, made the margin.
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
    """The limit on whose good side the figures of all of the next runs are, with a given probability.

    It is ``exp(mean ± r s)``, mean and standard deviation s those of the logarithms, r from `factor`. The margin is
    never less than `RESOLUTION`, and never less than one step of what is measured: figures that happen to be equal,
    or nearly so, do not show that the next one will be.

    Args:
        figures: one of each run, positive, at least `LEAST_RUNS`.
        side: ``at_most`` sets the limit above them, ``at_least`` below.
        next_runs: how many runs it is for.
        confidence: the probability.
        step: the smallest difference that the measurement shows, in the unit of the figures; 0 where there is none.

    Raises:
        ValueError: too few figures, one that is not positive, figures that differ too much to give a limit of any
            use, or an argument that makes no sense.
    """
    check_side(side)
    if len(figures) < LEAST_RUNS:
        raise ValueError(f"{len(figures)} runs are too few: a limit takes {LEAST_RUNS}")
    for figure in figures:
        if not (math.isfinite(figure) and figure > 0):
            raise ValueError(f"a run's figure is {figure!r}, not a positive number")
    logs = [math.log(figure) for figure in figures]
    # The rounding of equal values must not pass for a spread.
    spread = stdev(logs) if min(figures) < max(figures) else 0.0
    reach = factor(len(figures), next_runs, confidence) * spread
    centre = math.exp(fmean(logs))
    sign = 1 if side == "at_most" else -1
    # One step below a figure of one step is nothing, which no limit can be: half of it then.
    one_step = abs(math.log(max(1 + sign * step / centre, 0.5)))
    floor = max(math.log1p(RESOLUTION), one_step)
    if max(reach, floor) > math.log(MOST):
        raise ValueError(
            f"{len(figures)} figures that differ so much, from {min(figures):.4g} to {max(figures):.4g}, give a "
            f"limit more than {MOST:g} times away, which is none: more runs and a quieter machine give a nearer one"
        )
    limit = centre * math.exp(sign * max(reach, floor))
    return Prediction(centre, spread, limit, abs(limit / centre - 1), floored=floor > reach)


@functools.lru_cache(maxsize=64)
def factor(runs: int, next_runs: int, confidence: float) -> float:
    """How many standard deviations from the mean of some runs a limit is that holds for all of the next ones.

    The factor r of the one-sided prediction limit for all of m future observations of a normal population (Hahn,
    Additional Factors for Calculating Prediction Intervals for Samples from a Normal Distribution, JASA 65, 1970;
    Hahn and Meeker, Statistical Intervals, 1991, chapter 4): with n runs of mean x and standard deviation s, the next
    Y_1 … Y_m are all at most x + r s with

        P = E[ Phi(r U + Z / sqrt(n))^m ],   Z standard normal, (n - 1) U^2 chi-squared with n - 1 degrees of freedom.

    With m = 1 it is t sqrt(1 + 1/n), t Student's quantile. Bonferroni's inequality, the same with a quantile of
    1 - (1 - P)/m, would be half as much again: what makes limits wide is that s may be too small, which is one chance
    for all of the m.

    Args:
        runs: n, at least 2.
        next_runs: m, at least 1.
        confidence: P, between 0.5 and 1.

    Raises:
        ValueError: an argument makes no sense.
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
    # Of U the quantiles: the mean over them is an integral over (0, 1). It is taken over w with p = w^4, since at
    # small p, where s is much too small, the integrand is steepest.
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
