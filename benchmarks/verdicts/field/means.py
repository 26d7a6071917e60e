"""What a script does without a tool: twenty runs, their mean, a comparison.

For an absolute limit, ``mean < limit`` (Kata's and many others' checks of a published time); for a ratio, the mean of
twenty runs of B over that of twenty runs of A, taken one after the other, in the band.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from verdicts.decisions import Decisions, fixed

if TYPE_CHECKING:
    from verdicts.source import Source

RUNS = 20


def mean_below(source: Source, limit: float) -> Decisions:
    """The mean of arm A must not exceed a limit."""
    return fixed(source.take("a", RUNS).mean(axis=1) > limit, RUNS)


def ratio_of_means(source: Source, value: float, tolerance: float) -> Decisions:
    """The ratio of the means must lie within ``value`` plus or minus the tolerance's share of it."""
    a, b = source.take("a", RUNS).mean(axis=1), source.take("b", RUNS).mean(axis=1)
    return fixed(np.abs(b / a / value - 1.0) > tolerance, 2 * RUNS)
