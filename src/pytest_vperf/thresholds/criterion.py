"""What a claim asserts about its samples, with the threshold in it."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Literal

from pytest_vperf.quantity import Quantity

#: ``median`` or a percentile: ``p1`` to ``p99``, with a fraction such as ``p99.9`` where that is meant.
Statistic = str

STATISTIC = re.compile(r"median|p[1-9][0-9]?(?:\.[0-9]{1,3})?")


def quantile(statistic: Statistic) -> float:
    """Which quantile a statistic is: 0.5 of ``median``, 0.999 of ``p99.9``.

    Raises:
        ValueError: it is neither ``median`` nor a percentile.
    """
    if not STATISTIC.fullmatch(statistic):
        raise ValueError(f"{statistic!r} is not median or a percentile such as p95")
    # The exponent keeps it exact: 99.9 / 100 is not 0.999.
    return 0.5 if statistic == "median" else float(f"{statistic[1:]}e-2")


@dataclass(frozen=True)
class Limit:
    """One target's metric stays on the good side of a limit.

    Attributes:
        side: ``at_most`` (lower is better) or ``at_least`` (higher is better).
        threshold: the limit.
        statistic: which quantile of the samples is held against it.
    """

    side: Literal["at_most", "at_least"]
    threshold: Quantity
    statistic: Statistic = "median"

    @property
    def quantile(self) -> float:
        """The statistic as a number between 0 and 1."""
        return quantile(self.statistic)

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
class Near:
    """The ratio of one target's metric over another's is a value, within a tolerance.

    Attributes:
        value: the ratio, a positive number.
        tolerance: how far from it still counts as near, relative to the value: 0.05 is 5 %; ``None`` where the
            claim leaves it to the plan.
    """

    value: float
    tolerance: float | None = None

    def __str__(self) -> str:
        return f"near {Quantity(self.value)}{_around(self.tolerance)}"


@dataclass(frozen=True)
class NearLimit:
    """The median of one target's metric is a value, within a tolerance.

    Attributes:
        value: the value, positive, with its unit.
        tolerance: as in `Near`.
    """

    value: Quantity
    tolerance: float | None = None

    def __str__(self) -> str:
        return f"near {self.value}{_around(self.tolerance)}"


@dataclass(frozen=True)
class Saturates:
    """Over a sweep of loads one target's metric flattens, near a value.

    Attributes:
        value: the level of the flat part, positive, with its unit.
        tolerance: as in `Near`.
    """

    value: Quantity
    tolerance: float | None = None

    def __str__(self) -> str:
        return f"saturates near {self.value}{_around(self.tolerance)}"


@dataclass(frozen=True)
class NoWorse:
    """The candidate's metric is no worse than the baseline's by more than a tolerance.

    Attributes:
        direction: the direction of the metric.
        tolerance: how much worse counts as no worse: 0.02 is 2 %; ``None`` where the plan has not said yet.
    """

    direction: Literal["lower", "higher"]
    tolerance: float | None = None

    @property
    def side(self) -> Literal["at_most", "at_least"]:
        """On which side of `threshold` the ratio has to stay."""
        return "at_most" if self.direction == "lower" else "at_least"

    @property
    def threshold(self) -> float:
        """The worst ratio, candidate over baseline: 1.02 at 2 %, and 1/1.02 where higher is better.

        Where higher is better the inverse of the metric is judged, so that a change and its inverse weigh the same.

        Raises:
            ValueError: the tolerance is not known yet.
        """
        if self.tolerance is None:
            raise ValueError("the tolerance of no_worse is not known yet")
        return 1 + self.tolerance if self.direction == "lower" else 1 / (1 + self.tolerance)

    def __str__(self) -> str:
        if self.tolerance is None:
            return "no worse"
        return f"no worse by more than {_percent(self.tolerance)}"


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


Criterion = Limit | Ratio | Near | NearLimit | Saturates | NoWorse | Unknown


def _around(tolerance: float | None) -> str:
    return "" if tolerance is None else f" ± {_percent(tolerance)}"


def _percent(share: float) -> str:
    return str(Quantity(share * 100, "%"))
