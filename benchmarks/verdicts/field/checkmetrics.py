"""Kata Containers' checkmetrics: the mean of a run must lie within a band around a stored number.

Source: kata-containers/tests, ``cmd/checkmetrics/compare.go`` (``checkstats``: a mean below ``MinVal`` or above
``MaxVal`` fails, so better fails too) and ``ci_worker/*.toml`` (``checktype = "mean"``, a ``midval`` with
``minpercent`` and ``maxpercent`` of 5 for boot times). The stored number is the mean of an earlier run; here the run
just before, which favours the rule: a stored one is days old.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from verdicts.decisions import Decisions, fixed

if TYPE_CHECKING:
    from verdicts.source import Source

RUNS, BAND = 20, 0.05


def checkmetrics(source: Source, _tolerance: float) -> Decisions:
    """Twenty samples for the stored number, twenty for the check."""
    stored = source.take("a", RUNS).mean(axis=1)
    mean = source.take("b", RUNS).mean(axis=1)
    return fixed(np.abs(mean / stored - 1.0) > BAND, 2 * RUNS)
