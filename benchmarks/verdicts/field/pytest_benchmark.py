"""pytest-benchmark's ``--benchmark-compare-fail=mean:5%``: the mean of a run against that of a saved one.

Source: pytest-benchmark, ``src/pytest_benchmark/utils.py`` (``PercentageRegressionCheck``: fails when the mean is
more than so many percent above the saved one) and its manual, "Comparing past runs". How many rounds it makes follows
from ``--benchmark-max-time``; 100 stands for a benchmark of about 10 ms.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from verdicts.decisions import Decisions, fixed

if TYPE_CHECKING:
    from verdicts.source import Source

ROUNDS, LIMIT = 100, 0.05


def pytest_benchmark(source: Source, _tolerance: float) -> Decisions:
    """A hundred rounds saved, a hundred compared with them."""
    saved = source.take("a", ROUNDS).mean(axis=1)
    mean = source.take("b", ROUNDS).mean(axis=1)
    return fixed(mean / saved - 1.0 > LIMIT, 2 * ROUNDS)
