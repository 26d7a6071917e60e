"""What a claim asserts about its samples, with the threshold in it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from pytest_vperf.quantity import Quantity

Statistic = Literal["mean", "median"]


@dataclass(frozen=True)
class Limit:
    """One target's metric stays on the good side of a limit.

    Attributes:
        side: ``at_most`` (lower is better) or ``at_least`` (higher is better).
        threshold: the limit.
        statistic: which figure of the samples is held against it.
    """

    side: Literal["at_most", "at_least"]
    threshold: Quantity
    statistic: Statistic = "mean"

    def __str__(self) -> str:
        return f"{'≤' if self.side == 'at_most' else '≥'} {self.threshold}"


@dataclass(frozen=True)
class Ratio:
    """The ratio of one target's metric over another's stays on the good side of a limit.

    Attributes:
        side: ``at_most`` or ``at_least``.
        threshold: the ratio, a positive number; an overhead of 2 % is a ratio of at most 1.02.
        overhead: written as an overhead, and shown as one.
    """

    side: Literal["at_most", "at_least"]
    threshold: float
    overhead: bool = False

    def __str__(self) -> str:
        sign = "≤" if self.side == "at_most" else "≥"
        if self.overhead:
            return f"overhead {sign} {Quantity((self.threshold - 1) * 100, '%')}"
        return f"ratio {sign} {Quantity(self.threshold)}"


@dataclass(frozen=True)
class Unknown:
    """The document names the case but gives no figure: it is measured and reported, and judged by nothing.

    Attributes:
        reason: what the document does not say.
        unit: the unit the metric is reported in.
    """

    reason: str
    unit: str

    def __str__(self) -> str:
        return "no published figure"


Criterion = Limit | Ratio | Unknown
