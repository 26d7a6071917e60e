"""Disks as a fixture."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from pytest_vperf.machine.runs import Run
    from pytest_vperf.targets.disks import Disks
    from pytest_vperf.targets.scope import Scope


@pytest.fixture
def disks(vperf_run: Run, scope: Scope) -> Disks:
    """Makes disks of the run: ``disk = disks.make("256 MiB")``, ``containers.start(disks=[disk])``."""
    from pytest_vperf.targets.disks import Disks

    return Disks(vperf_run, scope)
