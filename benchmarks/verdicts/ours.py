"""The rules under test, through the public entry points of `pytest_vperf.stats`."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from pytest_vperf import stats
from verdicts.decisions import CODES, Decisions
from verdicts.source import Skipping, samplers

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from verdicts.draws import Draws

    Sampler = Callable[[], float]

#: The names of their rows.
COMPARE = "vperf compare"
SUITE = "vperf compare, suite of 100"
NEAR = "vperf near"
LIMIT = "vperf limit"
LIMIT_APART = "vperf limit, sessions apart"
#: The error allowed on the refuted side to each claim of a suite of 100 with 0.01 together (Bonferroni).
SUITE_ALPHA = 1e-4


def compare(draws: Draws, factor: float, tolerance: float, alpha: float = 0.01) -> Decisions:
    """B is no slower than A by more than the tolerance."""
    return _each(
        draws,
        factor,
        lambda a, b, seed: stats.compare(a, b, tolerance=tolerance, alpha=alpha, seed=seed),
    )


def near(draws: Draws, factor: float, value: float, tolerance: float) -> Decisions:
    """B/A is the value, give or take the tolerance."""
    return _each(
        draws,
        factor,
        lambda a, b, seed: stats.near(a, b, value=value, tolerance=tolerance, seed=seed),
    )


def limit(draws: Draws, at_most: float) -> Decisions:
    """The median of A is no more than a limit; the sessions follow at once."""
    return _each(draws, 1.0, lambda a, _b, _seed: stats.limit(a, at_most=at_most))


def limit_apart(draws: Draws, at_most: float) -> Decisions:
    """The same, with time between the sessions, as the plugin has it."""
    streams = (Skipping(draws, row) for row in range(len(draws.numbers)))
    return _gathered(stats.limit(s, at_most=at_most, pause=s.pause) for s in streams)


def _each(
    draws: Draws, factor: float, judge: Callable[[Sampler, Sampler, int], stats.Result]
) -> Decisions:
    """One decision for each stream."""
    return _gathered(
        judge(*samplers(draws, row, factor), seed) for row, seed in enumerate(draws.seeds)
    )


def _gathered(results: Iterable[stats.Result]) -> Decisions:
    found = [(CODES[result.verdict], result.samples) for result in results]
    verdicts, samples = zip(*found, strict=True)
    return Decisions(np.array(verdicts, dtype=np.int8), np.array(samples, dtype=np.int64))
