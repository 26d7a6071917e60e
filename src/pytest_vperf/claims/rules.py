"""Which judge a criterion gets."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pytest_vperf.claims.criterion import Limit, Ratio
from pytest_vperf.stats.describe import DescribePairRule, DescribeRule
from pytest_vperf.stats.limit import LimitRule
from pytest_vperf.stats.pair import PairRule

if TYPE_CHECKING:
    from pytest_vperf.claims.criterion import Criterion
    from pytest_vperf.stats.rule import Rule


def rule_for(criterion: Criterion | None, *, paired: bool, seed: int) -> Rule:
    """The rule that judges a criterion; without a figure to judge by, one that only describes.

    Args:
        criterion: of the claim's threshold, ``None`` where there is none.
        paired: whether two arms are sampled.
        seed: of the order of the pairs.
    """
    if isinstance(criterion, Ratio):
        return PairRule(criterion.threshold, criterion.side, seed=seed)
    if isinstance(criterion, Limit):
        return LimitRule(criterion.threshold.value, criterion.side, criterion.statistic)
    return DescribePairRule(seed=seed) if paired else DescribeRule()
