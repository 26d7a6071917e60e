"""Weights 2:1 on one CPU: with 1024 against 512 the heavier of two equal jobs takes 3/4 of the lighter one's time.

The heavier one has 2/3 of the CPU and ends after 1.5 times the work; the lighter one has half of its work left less
what it did meanwhile, 3/4 of it in all, and ends after twice the work. Alone, a weight changes nothing.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from known_truth import judge, settings

from pytest_vperf.workloads.at_once import together
from pytest_vperf.workloads.sysbench import Sysbench, SysbenchCpu

if TYPE_CHECKING:
    from known_truth import Table
    from lab import Lab

    from pytest_vperf.targets.base import Target

MAX_PRIME = 1000
#: Seconds of one CPU: long against what a container takes to start a command.
WORK, ALONE = 1.2, 0.4
#: Milliseconds between the two starts, at most.
LATE = 50


def events(sysbench: Sysbench, target: Target, seconds: float) -> int:
    """How many events are so much work."""
    found = sysbench.cpu(target, max_prime=MAX_PRIME, time=1).events_per_second
    return max(1, round(found.value * seconds))


# Not of emulated pods: two of them measured 0.72, see docs/limits.md.
@pytest.mark.parametrize("kind", ["host", "container"])
def test_under_contention_time_goes_by_weight(lab: Lab, table: Table, kind: str) -> None:
    heavy = lab.start(kind, cpu_shares=1024)
    light = lab.start(kind, cpu_shares=512)
    work = SysbenchCpu(MAX_PRIME, 1, events(Sysbench(lab.bench), heavy, WORK), None)

    def ratio() -> float | None:
        """Both times are of one run: they are a pair already. One that began late had the CPU to share for less."""
        found = together(lab.bench, work, heavy, light)
        if abs(found.start_offset.to("ms").value) > LATE:
            return None
        first, second = found.durations
        return first.value / second.value

    judge(
        table,
        setting="CPU weights 2:1, one CPU, together",
        target=heavy.name,
        read_back=f"{settings(heavy, 'cpu_shares')} and {settings(light, 'cpu_shares')}",
        measured=ratio,
        expected=0.75,
        within=0.02,
        # What is taken while both run is taken from both.
        bearable=0.03,
    )


@pytest.mark.parametrize("kind", ["container"])
def test_alone_a_weight_changes_nothing(lab: Lab, table: Table, kind: str) -> None:
    sysbench = Sysbench(lab.bench)
    heavy = lab.start(kind, cpu_shares=1024)
    light = lab.start(kind, cpu_shares=512)
    work = events(sysbench, heavy, ALONE)

    def duration(target: Target) -> float:
        return sysbench.cpu(target, max_prime=MAX_PRIME, events=work).total_time.value

    judge(
        table,
        setting="CPU weights 2:1, one CPU, in turn",
        target=heavy.name,
        read_back=f"{settings(heavy, 'cpu_shares')} and {settings(light, 'cpu_shares')}",
        measured=lambda: duration(heavy),
        reference=lambda: duration(light),
        expected=1.0,
        within=0.02,
    )
