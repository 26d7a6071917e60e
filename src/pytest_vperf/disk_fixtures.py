"""What a test asks for to hold targets to limits: disks, and the host within a control group."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from collections.abc import Callable

    from pytest_vperf.machine.runs import Run
    from pytest_vperf.targets.disks import Disks
    from pytest_vperf.targets.host import Host
    from pytest_vperf.targets.scope import Scope


@pytest.fixture
def disks(vperf_run: Run, scope: Scope) -> Disks:
    """Makes disks of the run: ``disk = disks.make("256 MiB")``, ``containers.start(disks=[disk])``."""
    from pytest_vperf.targets.disks import Disks

    return Disks(vperf_run, scope)


@pytest.fixture
def limited_host(host: Host, scope: Scope) -> Callable[..., Host]:
    """This machine within limits: ``limited_host(cpus=0.5)``; see `pytest_vperf.targets.host.Host.limited`."""

    def make(**limits: object) -> Host:
        return scope.own(host.limited(**limits))  # type: ignore[arg-type]

    return make
