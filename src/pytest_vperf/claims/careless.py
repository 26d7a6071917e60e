"""What is probably not meant, though it can be judged: a sampler compared with itself, a tolerance that is very wide.

Each becomes a warning of the claim, which does not change its verdict: ``KIND: figures: what to do``.
"""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Any

from pytest_vperf.claims.rounds import Rounds, TakenRounds
from pytest_vperf.quantity import usual_direction

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

    from pytest_vperf.claims.plan import Plan
    from pytest_vperf.claims.sampling import Sampling
    from pytest_vperf.stats.rule import Arm
    from pytest_vperf.thresholds.criterion import Criterion

#: A tolerance above this lets through what most would call worse; ours are from 1 % to 20 %.
_WIDE = 0.3


def warnings(
    samplers: Mapping[Arm, Any],
    plan: Plan,
    criterion: Criterion | None,
    sampling: Sampling,
    tracer: str,
) -> Iterator[str]:
    """Warnings about a claim, from what its test gave.

    Args:
        samplers: by arm.
        plan: of the claim.
        criterion: it is held against.
        sampling: its samples.
        tracer: what followed this process while it sampled, see `tracing`; empty if nothing did.
    """
    if "b" in samplers and samplers["a"] == samplers["b"]:
        yield "both arms have the same sampler: it is compared with itself"
    if plan.tolerance > _WIDE:
        yield (
            f"a tolerance above {_WIDE:.0%}: {plan.tolerance:.4g} ({plan.origins.get('tolerance')}): "
            "so much worse would still hold"
        )
    usual = usual_direction(sampling.unit or "")
    good = criterion.direction if criterion else ""
    if good and usual and good != usual and not sampling.direction:
        kind = "time" if usual == "lower" else "rate"
        yield (
            f"the limit is on the wrong side: {criterion}: a {kind} is better the {usual} it is; if not here, "
            f"return Quantity(…, direction='{good}')"
        )
    if tracer and not sampling.facts and not any(sampling.tools.values()):
        yield (
            f"this process was traced while it sampled itself: {tracer}: switch it off, such as with `--no-cov`, "
            "or sample in a target"
        )


def tracing(samplers: Iterable[object] = ()) -> str:
    """What follows each step of this process, such as ``coverage``; empty if nothing does.

    A tracer slows pure Python down several times, and unevenly (`sys.settrace`, `sys.setprofile`, `sys.monitoring`).

    Args:
        samplers: what is called meanwhile; pytest-benchmark pauses the first two during a round.
    """
    benchmarked = [isinstance(each, (Rounds, TakenRounds)) for each in samplers]
    paused = bool(benchmarked) and all(benchmarked)
    for follower in () if paused else (sys.gettrace(), sys.getprofile()):
        if follower is not None:
            module = getattr(follower, "__module__", None) or type(follower).__module__
            return str(module).partition(".")[0]
    monitoring = getattr(sys, "monitoring", None)  # from Python 3.12 on
    if monitoring is not None:
        names = (monitoring.get_tool(number) for number in range(6))
        return next((str(name).partition(".")[0] for name in names if name), "")
    return ""
