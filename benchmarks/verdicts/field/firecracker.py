"""Firecracker's A/B test: a permutation test of the means, and a change of more than five percent.

Source: firecracker, ``tools/ab_test.py``: ``--significance`` 0.01 and ``--noise-threshold`` 0.05 by default, a change
in either direction counts, 100/significance resamples (``scipy.stats.permutation_test`` of the difference of means,
two-sided); and ``ab_performance_test`` there: what fails is repeated up to ``--max-iterations`` times, the new
samples added to the old, A and B changing places, until an analysis does not fail. How many samples an iteration has
and how many iterations there may be is up to the pipeline: fifty of each arm, and four.

The p-values of all rows are drawn from one set of random permutations: as valid for each row, and a matrix product.
"""

from __future__ import annotations

from functools import lru_cache
from typing import TYPE_CHECKING

import numpy as np

from verdicts.decisions import HOLDS, REFUTED, Decisions

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from verdicts.source import Source

RUNS, ITERATIONS, SIGNIFICANCE, STRENGTH = 50, 4, 0.01, 0.05
RESAMPLES = int(100 / SIGNIFICANCE)


def firecracker(source: Source, _tolerance: float) -> Decisions:
    """Iterations of fifty samples of each arm, until the samples so far do not fail."""
    a = b = np.empty((source.rows, 0))
    failing = np.ones(source.rows, dtype=bool)
    samples = np.zeros(source.rows, dtype=np.int64)
    for iteration in range(ITERATIONS):
        if iteration % 2 == 0:
            new_a, new_b = source.take("a", RUNS), source.take("b", RUNS)
        else:
            new_b, new_a = source.take("b", RUNS), source.take("a", RUNS)
        a, b = np.concatenate([a, new_a], axis=1), np.concatenate([b, new_b], axis=1)
        samples[failing] += 2 * RUNS
        # Only where the change is strong does its p-value matter.
        failing &= np.abs(b.mean(axis=1) / a.mean(axis=1) - 1.0) > STRENGTH
        failing[failing] = permutation_p(a[failing], b[failing]) < SIGNIFICANCE
        if not failing.any():
            break
    return Decisions(np.where(failing, REFUTED, HOLDS).astype(np.int8), samples)


def permutation_p(a: NDArray[np.float64], b: NDArray[np.float64]) -> NDArray[np.float64]:
    """The two-sided p-value of the difference of the means of each row.

    As `scipy.stats.permutation_test` has it: each tail counts the observed order too, and the smaller is doubled.
    """
    pooled = np.concatenate([a, b], axis=1)
    pooled = pooled / pooled.mean(axis=1, keepdims=True)
    observed = pooled @ _weights(a.shape[1], b.shape[1])
    permuted = pooled @ _permuted(a.shape[1], b.shape[1])
    # Sums in another order differ in the last places.
    slack = 1e-12 + 1e-9 * np.abs(observed)
    above = (permuted >= (observed - slack)[:, None]).sum(axis=1)
    below = (permuted <= (observed + slack)[:, None]).sum(axis=1)
    p: NDArray[np.float64] = 2.0 * (np.minimum(above, below) + 1) / (RESAMPLES + 1)
    return np.minimum(p, 1.0)


def _weights(size_a: int, size_b: int) -> NDArray[np.float64]:
    """What makes a difference of means of the values of A, then B."""
    return np.repeat([-1.0 / size_a, 1.0 / size_b], [size_a, size_b])


@lru_cache(maxsize=ITERATIONS)
def _permuted(size_a: int, size_b: int) -> NDArray[np.float64]:
    """The weights in random orders, a column for each."""
    rows = np.tile(_weights(size_a, size_b), (RESAMPLES, 1))
    shuffled = np.random.default_rng(20230101).permuted(rows, axis=1)
    return np.ascontiguousarray(shuffled.T)
