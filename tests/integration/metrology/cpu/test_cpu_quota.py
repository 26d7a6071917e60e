"""Half a CPU is half the speed: sysbench within a quota of 50 % against the same target without one."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from known_truth import judge, settings

from pytest_vperf.workloads.sysbench import Sysbench

if TYPE_CHECKING:
    from known_truth import Table
    from lab import Lab

    from pytest_vperf.targets.base import Target

#: So small that an event is far less than a hundredth of a run.
MAX_PRIME = 1000


# Not of emulated pods: too noisy to be decided in the time of a row, see docs/limits.md.
@pytest.mark.parametrize("kind", ["host", "container"])
def test_half_a_cpu_is_half_the_speed(lab: Lab, table: Table, kind: str) -> None:
    sysbench = Sysbench(lab.bench)
    free = lab.start(kind)
    half = lab.start(kind, cpus=0.5)

    def speed(target: Target) -> float:
        # A second is a whole number of the quota's periods, so that it does not matter where in one a run begins.
        return sysbench.cpu(target, max_prime=MAX_PRIME, time=1).events_per_second.value

    judge(
        table,
        setting="CPU quota 50 %",
        target=half.name,
        read_back=settings(half, "cpu_quota", "cpu_period"),
        measured=lambda: speed(half),
        reference=lambda: speed(free),
        expected=0.5,
        within=0.02,
    )
