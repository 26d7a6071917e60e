"""Chromium's Pinpoint: same, different or unknown, with more attempts while it is unknown.

Source: catapult, ``dashboard/pinpoint/models/compare/compare.py`` (the smaller p-value of a Kolmogorov-Smirnov and
a Mann-Whitney test; different, in either direction, at 0.01 or below, same above a high threshold), ``thresholds.py``
(that threshold falls with the attempts and with the magnitude looked for, in interquartile ranges, 0.3 at least) and
``job_state.py`` (ten attempts at a time, for the change that has fewer; the magnitude is the difference looked for,
here the tolerance, over the larger range).

*Pinpoint-like*: its tables of high thresholds were simulated; here they come from the normal approximation of the U
test (Noether, JASA 82, 1987): the p-value that samples of normal laws so far apart stay below in about 98 of 100
cases.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
from scipy.special import kolmogorov
from scipy.stats import mannwhitneyu, norm

from verdicts.decisions import HOLDS, REFUTED, UNDECIDED, Decisions

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from verdicts.source import Source

ATTEMPTS, LOW, MOST = 10, 0.01, 300
SMALLEST_MAGNITUDE = 0.3
_NORMAL_IQR = float(norm.ppf(0.75) - norm.ppf(0.25))
_QUANTILE = 2.0


def pinpoint(source: Source, tolerance: float) -> Decisions:
    """Ten attempts of each; while unknown, ten more of A, then of B."""
    a, b = source.take("a", ATTEMPTS), source.take("b", ATTEMPTS)
    verdicts = np.full(source.rows, UNDECIDED, dtype=np.int8)
    samples = np.zeros(source.rows, dtype=np.int64)
    while True:
        unknown = np.flatnonzero(verdicts == UNDECIDED)
        p = p_value(a[unknown], b[unknown])
        high = high_threshold(
            magnitude(a[unknown], b[unknown], tolerance), (a.shape[1] + b.shape[1]) // 2
        )
        samples[unknown] = a.shape[1] + b.shape[1]
        verdicts[unknown[p > high]] = HOLDS
        verdicts[unknown[p <= LOW]] = REFUTED
        if a.shape[1] + b.shape[1] >= 2 * MOST or not (verdicts == UNDECIDED).any():
            return Decisions(verdicts, samples)
        if a.shape[1] <= b.shape[1]:
            a = np.concatenate([a, source.take("a", ATTEMPTS)], axis=1)
        else:
            b = np.concatenate([b, source.take("b", ATTEMPTS)], axis=1)


def p_value(a: NDArray[np.float64], b: NDArray[np.float64]) -> NDArray[np.float64]:
    """The smaller of the two tests' p-values, both by their asymptotic laws, for each row."""
    rank = np.asarray(mannwhitneyu(a, b, axis=1, method="asymptotic").pvalue)
    size_a, size_b = a.shape[1], b.shape[1]
    order = np.argsort(np.concatenate([a, b], axis=1), axis=1, kind="stable")
    steps = np.where(order < size_a, 1.0 / size_a, -1.0 / size_b)
    distance = np.abs(np.cumsum(steps, axis=1)).max(axis=1)
    root = np.sqrt(size_a * size_b / (size_a + size_b))
    # Stephens' correction for finite samples (JRSS B 32, 1970), as in the tool.
    smirnov = kolmogorov((root + 0.12 + 0.11 / root) * distance)
    smaller: NDArray[np.float64] = np.minimum(rank, smirnov)
    return smaller


def magnitude(
    a: NDArray[np.float64], b: NDArray[np.float64], tolerance: float
) -> NDArray[np.float64]:
    """The difference looked for, the tolerance's share of A's median, in the larger interquartile range."""
    ranges = [np.subtract(*np.percentile(arm, [75, 25], axis=1)) for arm in (a, b)]
    size = tolerance * np.median(a, axis=1) / np.maximum(np.maximum(*ranges), 1e-300)
    larger: NDArray[np.float64] = np.maximum(size, SMALLEST_MAGNITUDE)
    return larger


def high_threshold(size: NDArray[np.float64], attempts: int) -> NDArray[np.float64]:
    """The p-value above which the difference looked for would hardly ever stay."""
    exceeds = norm.cdf(size * _NORMAL_IQR / np.sqrt(2.0))
    z = (exceeds - 0.5) / np.sqrt((2 * attempts + 1) / (12.0 * attempts**2))
    return np.asarray(2.0 * norm.sf(np.maximum(z - _QUANTILE, 0.0)))
