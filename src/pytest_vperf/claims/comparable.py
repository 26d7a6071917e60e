"""Whether samples may be held against a criterion, and two arms against each other."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pytest_vperf.claims.criterion import Limit, NoWorse, Ratio
from pytest_vperf.targets.base import ON, Unavailable

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from pytest_vperf.claims.criterion import Criterion
    from pytest_vperf.quantity import Quantity
    from pytest_vperf.stats.rule import Arm, Side
    from pytest_vperf.targets.base import Facts
    from pytest_vperf.targets.scope import ToolUse


class NotComparable(TypeError):
    """What was sampled cannot be judged by the claim's criterion: the test or the threshold is wrong."""


def check_direction(claim: str, criterion: Criterion | None, value: Quantity) -> None:
    """Refuse a criterion with the other direction than the metric's (design rule 5).

    Args:
        claim: its name.
        criterion: one without a side, such as ``near``, takes every metric.
        value: a sample; one whose workload knows no direction is not refused.

    Raises:
        NotComparable: lower is better and the criterion says at least, or higher is better and it says at most.
    """
    __tracebackhide__ = True
    side = criterion.side if isinstance(criterion, (Limit, Ratio, NoWorse)) else None
    wanted = {"lower": "at_most", "higher": "at_least"}.get(value.better)
    if side is None or wanted is None or wanted == side:
        return
    raise NotComparable(
        f"claim {claim!r} is {criterion}, which is good where {_GOOD[side]} is better; of what was sampled, {value}, "
        f"{value.better} is better. {_HINT[value.better]}"
    )


_GOOD: Mapping[Side, str] = {"at_most": "lower", "at_least": "higher"}
_HINT: Mapping[str, str] = {
    "lower": "Sample a rate instead of a time, or use at_most or overhead.",
    "higher": "Sample a time instead of a rate, or use at_least: an overhead of 1 % in a rate is a ratio of at "
    "least 0.99.",
}


def check_programs(claim: str, tools: Mapping[Arm, Sequence[ToolUse]]) -> None:
    """Refuse to compare targets that ran different bytes of one tool.

    Args:
        claim: its name.
        tools: what ran for the samples of each arm.

    Raises:
        NotComparable: with both programs.
    """
    __tracebackhide__ = True
    for one in tools.get("a", ()):
        for other in tools.get("b", ()):
            same_tool = one.program.name == other.program.name
            if same_tool and one.program.sha256 != other.program.sha256:
                raise NotComparable(
                    f"claim {claim!r} would compare builds of {one.program.name}, not targets: it is {_build(one)}, "
                    f"and {_build(other)}. Run the image's in both (leave out --host-tools), or say that this is "
                    "meant: any_programs=True"
                )


def check_machines(claim: str, targets: Iterable[Facts]) -> None:
    """Refuse to compare targets that are on different machines: what differs then need not be the targets.

    Args:
        claim: its name.
        targets: of the test.

    Raises:
        Unavailable: with a target of each.
    """
    __tracebackhide__ = True
    places: dict[str, str] = {}
    for facts in targets:
        places.setdefault(facts.details.get(ON, "this machine"), facts.name)
    if len(places) > 1:
        found = " and ".join(f"{name} is on {place}" for place, name in places.items())
        raise Unavailable(
            f"claim {claim!r} would compare machines, not targets: {found}",
            remedy="start both on one machine",
            target=" / ".join(places.values()),
        )


def _build(use: ToolUse) -> str:
    program = use.program
    return f"{use.version} with sha256 {program.sha256[:12]} in {use.target} ({program.origin}: {program.path})"
