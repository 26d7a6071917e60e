"""The rules of tools in use, as those tools apply them; each returns verdicts for every row of a source."""

from __future__ import annotations

from typing import TYPE_CHECKING

from verdicts.field.benchstat import benchstat
from verdicts.field.checkmetrics import checkmetrics
from verdicts.field.firecracker import firecracker
from verdicts.field.paired_t import paired_t
from verdicts.field.pinpoint import pinpoint
from verdicts.field.pytest_benchmark import pytest_benchmark

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from verdicts.decisions import Decisions
    from verdicts.source import Source

#: By the name of the rule's row. The second argument is the tolerance: only the rules that know one use it.
FIELD: Mapping[str, Callable[[Source, float], Decisions]] = {
    "checkmetrics ±5 %, n=20": checkmetrics,
    "pytest-benchmark mean:5%, n=100": pytest_benchmark,
    "benchstat MWU p<.05, n=20": benchstat,
    "Firecracker permutation, ≤4 rounds": firecracker,
    "Pinpoint-like KS + MWU": pinpoint,
    "interleaved paired t, n=50": paired_t,
}
