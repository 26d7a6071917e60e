"""Machines on Xen as fixtures, through libvirt."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from pytest_vperf.stash import claims_session

if TYPE_CHECKING:
    from collections.abc import Callable

    from pytest_vperf.targets.domu.domu import Domu
    from pytest_vperf.targets.domu.domus import Domus
    from pytest_vperf.targets.image import Rootfs
    from pytest_vperf.targets.kernel.guest_kernel import GuestKernel
    from pytest_vperf.targets.scope import Scope
    from pytest_vperf.targets.virt.daemon import Daemon


@pytest.fixture
def domus(
    request: pytest.FixtureRequest,
    xen_daemon: Callable[[], Daemon],
    guest_kernel: Callable[[], GuestKernel],
    machine_rootfs: Callable[[], Rootfs],
    scope: Scope,
) -> Domus:
    """Starts domUs: ``domus.start()``."""
    from pytest_vperf.targets.domu.domus import Domus

    timeout = claims_session(request.config).settings.start_timeout
    return Domus(xen_daemon, machine_rootfs, guest_kernel, scope, timeout=timeout)


@pytest.fixture
def domu(domus: Domus) -> Domu:
    """A running domU."""
    return domus.start()
