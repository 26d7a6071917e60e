"""Which judge a criterion gets."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from pytest_vperf.claims.criterion import Limit, Near, NearLimit, NoWorse, Ratio
from pytest_vperf.stats.describe_rule import DescribeRule
from pytest_vperf.stats.limit_rule import LimitRule
from pytest_vperf.stats.pair_rule import PairRule

if TYPE_CHECKING:
    from pytest_vperf.claims.criterion import Criterion
    from pytest_vperf.claims.plan import Plan
    from pytest_vperf.stats.rule import Rule


def rule_for(
    criterion: Criterion | None, plan: Plan, *, paired: bool, seed: int, sessions: int = 3
) -> Rule:
    """The rule that judges a criterion; without a figure to judge by, one that only describes.

    Args:
        criterion: of the claim's threshold, settled by the plan; ``None`` where there is none.
        plan: errors and the greatest number of pairs, or of samples.
        paired: whether two arms are sampled.
        seed: of the coin that orders the pairs.
        sessions: of a limit.
    """
    alpha, beta = plan.alpha_each, plan.beta
    match criterion:
        case Ratio():
            return PairRule.at_most(
                criterion.threshold,
                criterion.side,
                alpha=alpha,
                beta=beta,
                max_pairs=plan.pairs,
                seed=seed,
            )
        case NoWorse():
            return PairRule.at_most(
                criterion.threshold,
                criterion.side,
                alpha=alpha,
                beta=beta,
                max_pairs=plan.pairs,
                seed=seed,
                effect=math.log1p(plan.tolerance),
            )
        case Near():
            return PairRule.near(
                criterion.value,
                criterion.tolerance or plan.tolerance,
                alpha=alpha,
                beta=beta,
                max_pairs=plan.pairs,
                seed=seed,
            )
        case Limit():
            return LimitRule.at_most(
                criterion.threshold.value,
                criterion.side,
                quantile=criterion.quantile,
                alpha=alpha,
                beta=beta,
                sessions=sessions,
                max_samples=max(plan.pairs, sessions),
            )
        case NearLimit():
            return LimitRule.near(
                criterion.value.value,
                criterion.tolerance or plan.tolerance,
                alpha=alpha,
                beta=beta,
                sessions=sessions,
                max_samples=max(plan.pairs, sessions),
            )
    return DescribeRule(paired=paired, seed=seed)
