"""Targets of every kind for one test, with the tools' image."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from pytest_vperf.targets.disks import Disks, Here
from pytest_vperf.workloads.bench import Bench

if TYPE_CHECKING:
    from collections.abc import Callable

    from pytest_vperf.machine.runs import Run
    from pytest_vperf.targets.base import Target
    from pytest_vperf.targets.scope import Scope


class Lab:
    """Starts targets by their kind, each with the tools' image.

    Attributes:
        bench: runs workloads in them.
        disks: makes disks.
    """

    def __init__(self, scope: Scope, run: Run, starters: dict[str, Callable[..., Target]]) -> None:
        self.bench = Bench(scope)
        self.disks = Disks(Here(run), scope)
        self._starters = starters

    def start(self, kind: str, **limits: Any) -> Target:
        """A target of a kind (``host``, ``container``, ``pod``) within limits, on this process's CPU."""
        return self._starters[kind](**limits)
