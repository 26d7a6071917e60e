"""What a test asks for to hold targets to limits: disks, and the host within a control group."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from collections.abc import Callable

    from pytest_vperf.machine.runs import Run
    from pytest_vperf.targets.disks import Disks
    from pytest_vperf.targets.host import Host
    from pytest_vperf.targets.remote.machine import RemoteMachine
    from pytest_vperf.targets.scope import Scope
    from pytest_vperf.targets.ssh_host import SshHost
    from pytest_vperf.targets.virt.machine_disks import MachineDisks


@pytest.fixture
def disks(
    request: pytest.FixtureRequest,
    vperf_run: Run,
    scope: Scope,
    elsewhere: Callable[[], RemoteMachine] | None,
) -> Disks | MachineDisks:
    """Makes disks of the run: ``disk = disks.make("256 MiB")``, ``containers.start(disks=[disk])``."""
    if elsewhere is not None:
        from pytest_vperf.targets.virt.machine_disks import MachineDisks

        machine = elsewhere()
        machine.need_root("disks of the run")
        host: SshHost = request.getfixturevalue("host")
        return MachineDisks(host, f"{machine.folder}/disks", scope)
    from pytest_vperf.targets.disks import Disks

    return Disks(vperf_run, scope)


@pytest.fixture
def limited_host(host: Host | SshHost, scope: Scope) -> Callable[..., Host]:
    """This machine within limits: ``limited_host(cpus=0.5)``; see `pytest_vperf.targets.host.Host.limited`."""
    from pytest_vperf.targets.base import Unavailable
    from pytest_vperf.targets.host import Host

    def make(**limits: object) -> Host:
        if not isinstance(host, Host):
            raise Unavailable(
                f"{host.name} cannot be held to limits from here",
                remedy="call pytest-vperf on that machine",
                target=host.name,
            )
        return scope.own(host.limited(**limits))  # type: ignore[arg-type]

    return make
