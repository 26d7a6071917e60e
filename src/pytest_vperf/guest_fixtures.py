"""Guests as fixtures: full virtual machines through libvirt, on this machine's daemon, another's, or a lab's."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from pytest_vperf.fixtures import parametrizes_itself, prepare
from pytest_vperf.stash import claims_session

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from pytest_vperf.machine.preflight import Readiness
    from pytest_vperf.machine.runs import Run
    from pytest_vperf.targets.guest.guest import Guest
    from pytest_vperf.targets.guest.guests import Guests
    from pytest_vperf.targets.image import Rootfs
    from pytest_vperf.targets.kernel.guest_kernel import GuestKernel
    from pytest_vperf.targets.pod.assets import Assets
    from pytest_vperf.targets.scope import Scope
    from pytest_vperf.targets.virt.daemon import Daemon


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """Run what asks for guests once per ``--accelerator`` that guests can have, unless it names its own."""
    if "guests" not in metafunc.fixturenames or parametrizes_itself(metafunc, "guests"):
        return
    asked = claims_session(metafunc.config).settings.accelerators
    accelerators = [name for name in asked if name in ("kvm", "tcg")]
    if accelerators:
        metafunc.parametrize("guests", accelerators, ids=accelerators, indirect=True)


@pytest.fixture(scope="session")
def libvirt_daemon(
    request: pytest.FixtureRequest, vperf_run: Run
) -> Iterator[Callable[[], Daemon]]:
    """The libvirt daemon of ``--libvirt-uri``, else this machine's, as a function: found or started at first call."""
    from pytest_vperf.targets.once import Once
    from pytest_vperf.targets.virt import connect

    uri = claims_session(request.config).settings.libvirt_uri
    found = Once(lambda: connect.connect(uri, vperf_run) if uri else connect.find(vperf_run))
    yield found
    for daemon in found.made:
        daemon.close()


@pytest.fixture(scope="session")
def guest_kernel(request: pytest.FixtureRequest) -> Callable[[], GuestKernel]:
    """The kernel of guests, as a function: ``--guest-kernel``, else the distribution's."""
    from pytest_vperf.targets.kernel.guest_kernel import distribution_kernel, from_file
    from pytest_vperf.targets.once import Once

    named = claims_session(request.config).settings.guest_kernel
    return Once(lambda: from_file(named) if named else distribution_kernel())


@pytest.fixture(scope="session")
def kvm_ready(
    libvirt_daemon: Callable[[], Daemon],
    guest_kernel: Callable[[], GuestKernel],
    rootfs_for: Callable[[bool], Callable[[], Rootfs]],
    pod_assets_for: Callable[[bool], Callable[[], Assets]],
    vperf_run: Run,
) -> Callable[[], Readiness]:
    """Whether guests can have KVM through that daemon, as a function: tried at the first call."""
    from pytest_vperf.targets.guest.probe import probe_kvm
    from pytest_vperf.targets.once import Once
    from pytest_vperf.targets.pod.probe import probe as probe_pods

    def ask() -> Readiness:
        daemon = libvirt_daemon()
        if not daemon.is_remote:
            # The same KVM as for pods, and what is known of it is remembered from run to run.
            local = probe_pods("kvm", pod_assets_for(False), vperf_run)
            if not local.usable:
                return local
        return probe_kvm(daemon, guest_kernel())

    return Once(ask)


@pytest.fixture
def guests_on(
    request: pytest.FixtureRequest,
    libvirt_daemon: Callable[[], Daemon],
    guest_kernel: Callable[[], GuestKernel],
    kvm_ready: Callable[[], Readiness],
    rootfs_for: Callable[[bool], Callable[[], Rootfs]],
    scope: Scope,
) -> Callable[[str], Guests]:
    """Guests with an accelerator named by the test: ``guests_on("tcg").start()``."""
    from pytest_vperf.targets.guest.guests import Guests

    timeout = claims_session(request.config).settings.start_timeout
    # A whole machine needs what only the larger image has: an init, and the agent.
    rootfs = rootfs_for(True)
    prepare(rootfs)

    def make(accelerator: str) -> Guests:
        return Guests(
            libvirt_daemon,
            rootfs,
            guest_kernel,
            kvm_ready,
            scope,
            accelerator=accelerator,
            timeout=timeout,
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
