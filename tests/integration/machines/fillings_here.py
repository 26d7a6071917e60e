"""Shared by the tests of density: filling this host with a few targets, and looking for what is left."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from pytest_vperf.density.bounds import Bounds
from pytest_vperf.density.fill import fill
from pytest_vperf.machine import cgroups
from pytest_vperf.targets.kinds import KINDS
from pytest_vperf.targets.scope import Scope
from pytest_vperf.workloads.bench import Bench
from pytest_vperf.workloads.memory import GuestMem, ProcMem

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from pathlib import Path

    from pytest_vperf.density.filling import Filling
    from pytest_vperf.density.kinds import Starter
    from pytest_vperf.machine.runs import Run
    from pytest_vperf.results.record import FillingRecord


def filled(
    starter: Starter,
    run: Run,
    *,
    most: int | None = None,
    memory: int | None = None,
    floor: int | None = None,
    say: Callable[[str], None] = lambda text: None,
    of_each: Mapping[str, Any] | None = None,
) -> Filling:
    """Fill this host; the test closes the filling."""
    scope = Scope()
    kept: list[FillingRecord | None] = []
    return fill(
        starter,
        of_each or {},
        Bounds(most, memory, floor),
        kinds=KINDS,
        run=run,
        scope=scope,
        procmem=ProcMem(),
        guestmem=GuestMem(Bench(scope)),
        nodeid="test",
        seed=1,
        say=say,
        keep=kept.append,
    )


def groups_of_fillings(run: Run) -> list[Path]:
    """The control groups that a run's fillings have left; the run's other groups stay until its end."""
    return [group for group in cgroups.named(run.cgroup) if "density" in str(group)]
