"""What a claim asserts about its samples, including the threshold.

A criterion carries its meaning: side, figure, unit, rule and words. A new one is a class here, and its keys in
`pytest_vperf.thresholds.schema`.
"""

from __future__ import annotations

import math
import re
from dataclasses import dataclass, field, replace
from functools import cached_property
from importlib import import_module
from operator import attrgetter
from typing import TYPE_CHECKING, Any, ClassVar, Literal

from pytest_vperf.quantity import Quantity

if TYPE_CHECKING:
    from collections.abc import Mapping

    from pytest_vperf.stats.rule import Rule

Side = Literal["at_most", "at_least"]
#: How the sides are written.
SIGNS: Mapping[Side, str] = {"at_most": "≤", "at_least": "≥"}

#: ``median`` or a percentile: ``p1`` to ``p99``, optionally with a fraction, such as ``p99.9``.
Statistic = str

STATISTIC = re.compile(r"median|p[1-9][0-9]?(?:\.[0-9]{1,3})?")


def quantile(statistic: Statistic) -> float:
    """The quantile of a statistic: 0.5 for ``median``, 0.999 for ``p99.9``.

    Raises:
        ValueError: it is neither ``median`` nor a percentile.
    """
    if not STATISTIC.fullmatch(statistic):
        raise ValueError(f"{statistic!r} is not median or a percentile such as p95")
    # The exponent keeps it exact: 99.9 / 100 is not 0.999.
    return 0.5 if statistic == "median" else float(f"{statistic[1:]}e-2")


@dataclass(frozen=True)
class Criterion:
    """What a claim asserts; ``str()`` gives it in readable form.

    Attributes:
        method: the method of ``Claim`` that judges it; ``None`` where any does.
        rule: the statistical rule that judges it, ``module:class.method`` of `pytest_vperf.stats`; empty if none
            does, or if it judges a sweep.
        of_builds: whether it compares two builds, the sides of a gate.
    """

    method: ClassVar[Literal["holds", "compares", "near", "saturates"] | None]
    rule: ClassVar[str] = ""
    of_builds: ClassVar[bool] = False

    # Properties that a subclass may replace by a field are cached ones; such a field needs field(), or it would have
    # the property as its default.

    @cached_property
    def side(self) -> Side | None:
        """The side of the figure on which the estimate has to stay; ``None`` if both sides are bad, or neither."""
        return None

    @cached_property
    def direction(self) -> Literal["lower", "higher", ""]:
        """The direction that a metric must have to fit this side; empty if any metric fits."""
        return "lower" if self.side == "at_most" else "higher" if self.side else ""

    @property
    def _against(self) -> Quantity | float | None:
        return None

    @property
    def figure(self) -> float | None:
        """What the estimate is held against, in `unit`."""
        return self._against.value if isinstance(self._against, Quantity) else self._against

    @cached_property
    def unit(self) -> str | None:
        """The unit of the samples; ``None`` for a comparison, whose ratio has none."""
        return self._against.unit if isinstance(self._against, Quantity) else None

    @property
    def statistic(self) -> Statistic:
        """The quantile of the samples, or of their ratios, that is held against the figure."""
        return "median"

    @property
    def quantile(self) -> float:
        """The statistic as a number between 0 and 1."""
        return quantile(self.statistic)

    @property
    def tolerance(self) -> float | None:
        """How far the figure is widened, as a share: 0.02 is 2 %; ``None`` if the claim leaves it to the plan."""
        return 0.0

    @cached_property
    def reason(self) -> str:
        """Why there is no figure; empty where there is one."""
        return ""

    @property
    def arguments(self) -> dict[str, Any]:
        """The criterion's arguments for its rule, by name."""
        return {"threshold": self.figure, "side": self.side}

    @property
    def compares(self) -> bool:
        """Whether it compares two metrics."""
        return self.method in ("compares", "near")

    @property
    def is_absolute(self) -> bool:
        """Whether it holds one metric against a figure; such a claim is judged in several sessions."""
        return self.unit is not None and not self.reason

    @property
    def is_limit(self) -> bool:
        """Whether it is absolute and has a good side, like the limits that a calibration makes."""
        return self.is_absolute and self.side is not None

    def new_rule(self, **options: Any) -> Rule | None:
        """A rule that judges it; ``None`` if it has none.

        Args:
            options: of the rule: errors, and the greatest number of samples or pairs.
        """
        if not self.rule:
            return None
        module, _, name = self.rule.partition(":")
        make = attrgetter(name)(import_module(f"pytest_vperf.stats.{module}"))
        found: Rule = make(**self.arguments, **options)
        return found

    def settled(self, tolerance: float | None) -> Criterion:
        """The criterion with this tolerance filled in, if it leaves its tolerance to the plan."""
        settings: dict[str, Any] = {"tolerance": tolerance}
        return replace(self, **settings) if self.tolerance is None else self


@dataclass(frozen=True)
class _OneSided(Criterion):
    side: Side = field()
    threshold: Quantity | float

    @property
    def _against(self) -> Quantity | float:
        return self.threshold


@dataclass(frozen=True)
class Limit(_OneSided):
    """One target's metric stays on the good side of a limit.

    Attributes:
        side: ``at_most`` (lower is better) or ``at_least`` (higher is better).
        threshold: the limit.
        statistic: which quantile of the samples is held against it.
    """

    threshold: Quantity
    statistic: Statistic = "median"

    method = "holds"
    rule = "limit:LimitRule.at_most"

    def __str__(self) -> str:
        return f"{SIGNS[self.side]} {self.threshold}"


@dataclass(frozen=True)
class Ratio(_OneSided):
    """The ratio of one target's metric over another's stays on the good side of a limit.

    Attributes:
        side: ``at_most`` or ``at_least``.
        threshold: the ratio, a positive number; an overhead of 2 % is a ratio of at most 1.02.
        overhead: whether it was written as an overhead, and is shown as one.
    """

    threshold: float
    overhead: bool = False

    method = "compares"
    rule = "pair:PairRule.at_most"

    def __str__(self) -> str:
        if self.overhead:
            return f"overhead {SIGNS[self.side]} {Quantity((self.threshold - 1) * 100, '%')}"
        return f"ratio {SIGNS[self.side]} {Quantity(self.threshold)}"


@dataclass(frozen=True)
class Between(Criterion):
    """The ratio of one target's metric over another's lies in a published range, whose two ends are both limits.

    Attributes:
        low: the smallest ratio, a positive number.
        high: the greatest.
        overhead: whether it was written as overheads, and is shown as ones.
    """

    low: float
    high: float
    overhead: bool = False

    method = "compares"
    rule = "pair:PairRule.between"

    @property
    def arguments(self) -> dict[str, Any]:
        """The two ends."""
        return {"low": self.low, "high": self.high}

    def __str__(self) -> str:
        if self.overhead:
            ends = [Quantity((each - 1) * 100, "%") for each in (self.low, self.high)]
        else:
            ends = [Quantity(self.low), Quantity(self.high)]
        return f"{'overhead' if self.overhead else 'ratio'} {ends[0]} .. {ends[1]}"


@dataclass(frozen=True)
class _TwoSided(Criterion):
    value: Quantity | float
    tolerance: float | None = None

    _words: ClassVar[str] = "near"

    @property
    def _against(self) -> Quantity | float:
        return self.value

    @property
    def arguments(self) -> dict[str, Any]:
        return {"value": self.figure, "tolerance": self.tolerance}

    def __str__(self) -> str:
        around = "" if self.tolerance is None else f" ± {_percent(self.tolerance)}"
        value = self.value if isinstance(self.value, Quantity) else Quantity(self.value)
        return f"{self._words} {value}{around}"


@dataclass(frozen=True)
class Near(_TwoSided):
    """The ratio of one target's metric over another's is a value, within a tolerance.

    Attributes:
        value: the ratio, a positive number.
        tolerance: how far from it still counts as near, relative to the value: 0.05 is 5 %; ``None`` where the
            claim leaves it to the plan.
    """

    value: float

    method = "near"
    rule = "pair:PairRule.near"


@dataclass(frozen=True)
class NearLimit(_TwoSided):
    """The median of one target's metric is a value, within a tolerance.

    Attributes:
        value: the value, positive, with its unit.
        tolerance: as in `Near`.
    """

    value: Quantity

    method = "holds"
    rule = "limit:LimitRule.near"


@dataclass(frozen=True)
class Saturates(_TwoSided):
    """Over a sweep of loads one target's metric flattens, near a value.

    Attributes:
        value: the level of the flat part, positive, with its unit.
        tolerance: as in `Near`.
    """

    value: Quantity

    method = "saturates"
    _words = "saturates near"


@dataclass(frozen=True)
class NoWorse(Criterion):
    """The candidate's metric is no worse than the baseline's by more than a tolerance.

    Attributes:
        direction: the direction of the metric.
        tolerance: how much worse counts as no worse: 0.02 is 2 %; ``None`` until the plan has set it.
    """

    direction: Literal["lower", "higher"] = field()
    tolerance: float | None = None

    method = "compares"
    rule = "pair:PairRule.at_most"
    of_builds = True

    @property
    def side(self) -> Side:
        """The side of `threshold` on which the ratio has to stay."""
        return "at_most" if self.direction == "lower" else "at_least"

    @property
    def threshold(self) -> float:
        """The worst allowed ratio, candidate over baseline: 1.02 at 2 %, or 1/1.02 if higher is better.

        The reciprocal makes a change and its inverse weigh the same.

        Raises:
            ValueError: the tolerance is not known yet.
        """
        if self.tolerance is None:
            raise ValueError("the tolerance of no_worse is not known yet")
        return 1 + self.tolerance if self.direction == "lower" else 1 / (1 + self.tolerance)

    @property
    def figure(self) -> float:
        """The worst allowed ratio, `threshold`."""
        return self.threshold

    @property
    def arguments(self) -> dict[str, Any]:
        """The arguments of a limit, and the smallest change that matters, as a logarithm."""
        return {**super().arguments, "effect": math.log1p(self.tolerance or 0.0)}

    def __str__(self) -> str:
        if self.tolerance is None:
            return "no worse"
        return f"no worse by more than {_percent(self.tolerance)}"


@dataclass(frozen=True)
class Unknown(Criterion):
    """The document names the case but gives no figure: it is measured and reported, but not judged.

    Attributes:
        reason: what the document does not say.
        unit: the unit the metric is reported in.
    """

    reason: str = field()
    unit: str = field()

    method = None

    def __str__(self) -> str:
        return "no published figure"


def of_change(direction: Literal["lower", "higher", ""], tolerance: float) -> NoWorse | Near:
    """What is asserted of one build against another: no worse; where nobody says what is worse, that they are alike.

    Args:
        direction: of the metric; empty if it is not known.
        tolerance: how large a change is tolerated.
    """
    if direction:
        return NoWorse(direction=direction, tolerance=tolerance)
    return Near(value=1.0, tolerance=tolerance)


def _percent(share: float) -> str:
    return str(Quantity(share * 100, "%"))
