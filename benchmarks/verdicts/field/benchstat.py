"""Go's benchstat: a significant difference by the Mann-Whitney U test is a change.

Source: golang.org/x/perf, ``benchmath/anone.go`` and ``sample.go`` (``CompareAlpha`` 0.05, two-sided) and the manual
of ``cmd/benchstat``, which asks for 10 runs at least and more where they are noisy. benchstat only prints the change;
what gates on it takes a significant one towards slower as a regression.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
from scipy.stats import mannwhitneyu

from verdicts.decisions import Decisions, fixed

if TYPE_CHECKING:
    from verdicts.source import Source

RUNS, ALPHA = 20, 0.05


def benchstat(source: Source, _tolerance: float) -> Decisions:
    """Twenty runs of the old, then twenty of the new."""
    old, new = source.take("a", RUNS), source.take("b", RUNS)
    p = mannwhitneyu(new, old, axis=1, method="exact").pvalue
    slower = np.median(new, axis=1) > np.median(old, axis=1)
    return fixed((p < ALPHA) & slower, 2 * RUNS)
