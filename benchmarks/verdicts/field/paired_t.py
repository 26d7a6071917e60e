"""A careful person's rule: a fixed number of interleaved pairs, and Student's interval of their log ratios.

Not of one tool: interleaving as in duet benchmarking (Bulej et al., ICPE 2020), and the interval most reports give.
Arms alternate A, B, A, B; the interval has an error of 0.01 at each end; the claim is refuted when it lies above the
tolerance, holds when it lies below, and is undecided else.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
from scipy.stats import t as student

from verdicts.decisions import HOLDS, REFUTED, UNDECIDED, Decisions

if TYPE_CHECKING:
    from verdicts.source import Source

PAIRS, ERROR = 50, 0.01


def paired_t(source: Source, tolerance: float) -> Decisions:
    """Fifty pairs, one look."""
    pairs = [(source.take("a", 1), source.take("b", 1)) for _ in range(PAIRS)]
    ratios = np.log(np.concatenate([b / a for a, b in pairs], axis=1))
    middle = ratios.mean(axis=1)
    half = student.ppf(1 - ERROR, PAIRS - 1) * ratios.std(axis=1, ddof=1) / np.sqrt(PAIRS)
    limit = np.log1p(tolerance)
    verdicts = np.full(source.rows, UNDECIDED, dtype=np.int8)
    verdicts[middle + half <= limit] = HOLDS
    verdicts[middle - half > limit] = REFUTED
    return Decisions(verdicts, np.full(source.rows, 2 * PAIRS, dtype=np.int64))
