"""Guests as fixtures: full virtual machines of QEMU, through libvirt."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from pytest_vperf.fixtures import parametrizes_itself, prepare
from pytest_vperf.stash import claims_session

if TYPE_CHECKING:
    from collections.abc import Callable

    from pytest_vperf.targets.guest.guest import Guest
    from pytest_vperf.targets.guest.guests import Guests
    from pytest_vperf.targets.image import Rootfs
    from pytest_vperf.targets.kernel.guest_kernel import GuestKernel
    from pytest_vperf.targets.scope import Scope
    from pytest_vperf.targets.virt.choice import KvmHost
    from pytest_vperf.targets.virt.daemon import Daemon


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """Run what asks for guests once per ``--accelerator`` that guests can have, unless it names its own."""
    if "guests" not in metafunc.fixturenames or parametrizes_itself(metafunc, "guests"):
        return
    asked = claims_session(metafunc.config).settings.accelerators
    accelerators = [name for name in asked if name in ("kvm", "tcg")]
    if accelerators:
        metafunc.parametrize("guests", accelerators, ids=accelerators, indirect=True)


@pytest.fixture
def machine_rootfs(rootfs_for: Callable[[bool], Callable[[], Rootfs]]) -> Callable[[], Rootfs]:
    """The image of whole machines, as a function: the larger one, which has an init and the agent."""
    rootfs = rootfs_for(True)
    prepare(rootfs)
    return rootfs


@pytest.fixture
def guests_on(
    request: pytest.FixtureRequest,
    libvirt_daemon: Callable[[], Daemon],
    kvm_host: Callable[[], KvmHost],
    guest_kernel: Callable[[], GuestKernel],
    machine_rootfs: Callable[[], Rootfs],
    scope: Scope,
) -> Callable[[str], Guests]:
    """Guests with an accelerator named by the test: ``guests_on("tcg").start()``."""
    from pytest_vperf.targets.base import Unavailable
    from pytest_vperf.targets.guest.guests import Guests

    timeout = claims_session(request.config).settings.start_timeout

    def with_kvm() -> Daemon:
        found = kvm_host()
        if found.daemon is None or not found.readiness.usable:
            raise Unavailable(found.readiness.why, remedy=found.readiness.remedy)
        return found.daemon

    def make(accelerator: str) -> Guests:
        daemon = with_kvm if accelerator == "kvm" else libvirt_daemon
        return Guests(
            daemon, machine_rootfs, guest_kernel, scope, accelerator=accelerator, timeout=timeout
        )

    return make


@pytest.fixture
def guests(request: pytest.FixtureRequest, guests_on: Callable[[str], Guests]) -> Guests:
    """Starts guests: ``guests.start()``; with KVM, unless ``--accelerator`` asks for another."""
    return guests_on(getattr(request, "param", "kvm"))


@pytest.fixture
def guest(guests: Guests) -> Guest:
    """A running guest."""
    return guests.start()
