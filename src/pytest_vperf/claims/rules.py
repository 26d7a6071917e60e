"""Which judge a criterion gets."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from pytest_vperf.claims.criterion import Limit, Near, NearLimit, NoWorse, Ratio, Saturates
from pytest_vperf.claims.judge import DEFAULTS
from pytest_vperf.stats.describe_rule import DescribeRule
from pytest_vperf.stats.limit_rule import LimitRule
from pytest_vperf.stats.pair_rule import PairRule
from pytest_vperf.stats.plateau_rule import PlateauRule

if TYPE_CHECKING:
    from pytest_vperf.claims.criterion import Criterion
    from pytest_vperf.claims.plan import Plan
    from pytest_vperf.claims.sweep import Sweep
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
    errors = {"alpha": plan.alpha_each, "beta": plan.beta}
    pairs = {**errors, "max_pairs": plan.pairs, "seed": seed}
    one = {**errors, "max_samples": max(plan.pairs, sessions), "sessions": sessions}
    match criterion:
        case Ratio():
            return PairRule.at_most(criterion.threshold, criterion.side, **pairs)
        case NoWorse():
            effect = math.log1p(plan.tolerance)
            return PairRule.at_most(criterion.threshold, criterion.side, **pairs, effect=effect)
        case Near():
            return PairRule.near(criterion.value, criterion.tolerance or plan.tolerance, **pairs)
        case Limit():
            limit, quantile = criterion.threshold.value, criterion.quantile
            return LimitRule.at_most(limit, criterion.side, **one, quantile=quantile)
        case NearLimit():
            tolerance = criterion.tolerance or plan.tolerance
            return LimitRule.near(criterion.value.value, tolerance, **one)
    return DescribeRule(paired=paired, seed=seed)


def rule_for_sweep(
    criterion: Criterion | None, plan: Plan, sweep: Sweep, *, seed: int, sessions: int = 3
) -> PlateauRule:
    """The rule that judges a sweep; without a figure to judge by, it describes what the sweep shows.

    Args:
        criterion: as of `rule_for`.
        plan: errors; how many samples there are, the sweep says.
        sweep: gets the rule.
        seed: of the orders of its loads.
        sessions: over which it is spread.

    Raises:
        ValueError: it has too few loads to show a plateau.
    """
    level = criterion if isinstance(criterion, Saturates) else None
    sweep.rule = PlateauRule(
        len(sweep.over),
        value=level.value.value if level else None,
        tolerance=(level.tolerance if level else None) or plan.tolerance or DEFAULTS["tolerance"],
        alpha=plan.alpha_each,
        beta=plan.beta,
        sessions=sessions,
        rounds=sweep.rounds,
        seed=seed,
    )
    return sweep.rule
