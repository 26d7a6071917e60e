"""Fixtures of tests with a lab besides its hosts: their daemons, the machines' image, and guests."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from labs_here import leaving_nothing

from pytest_vperf.targets.guest.guests import Guests
from pytest_vperf.targets.kernel.guest_kernel import distribution_kernel
from pytest_vperf.targets.libvirt import connect

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from labs_here import SharedLabs

    from pytest_vperf.machine.runs import Run
    from pytest_vperf.targets.image.rootfs import Rootfs
    from pytest_vperf.targets.libvirt.daemon import Daemon


@pytest.fixture(scope="module")
def daemon_of(session_run: Run, shared_labs: SharedLabs) -> Iterator[Callable[[str], Daemon]]:
    """The libvirt daemon of a lab's host."""
    found: dict[str, Daemon] = {}

    def get(kind: str) -> Daemon:
        if kind not in found:
            host = shared_labs.get(kind)
            found[kind] = connect.connect(
                host.uri,
                session_run,
                details=dict(host.details),
                ssh=(host.ssh_url, host.ssh_config),
            )
        return found[kind]

    yield get
    for daemon in found.values():
        daemon.close()


@pytest.fixture
def guests(daemon_of: Callable[[str], Daemon], tools: Rootfs) -> Iterator[Guests]:
    daemon = daemon_of("kvm")
    with leaving_nothing(daemon) as scope:
        yield Guests(lambda: daemon, lambda: tools, distribution_kernel, scope, timeout=240)
