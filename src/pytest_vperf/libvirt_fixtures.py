"""The libvirt daemons that whole machines are started on: named by the user, this machine's, or a lab's."""

from __future__ import annotations

import functools
from typing import TYPE_CHECKING, Any

import pytest

from pytest_vperf.stash import claims_session

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from pytest_vperf.lab.host import LabHost
    from pytest_vperf.machine.preflight import Readiness
    from pytest_vperf.machine.runs import Run
    from pytest_vperf.targets.image import Rootfs
    from pytest_vperf.targets.kernel.guest_kernel import GuestKernel
    from pytest_vperf.targets.once import Once
    from pytest_vperf.targets.pod.assets import Assets
    from pytest_vperf.targets.remote.machine import RemoteMachine
    from pytest_vperf.targets.virt.choice import KvmHost
    from pytest_vperf.targets.virt.daemon import Daemon


def _daemon(connect: Callable[[], Daemon], shared: list[Once[Any]]) -> Once[Daemon]:
    """A daemon that is connected to when it is first wanted, and again where it, or its machine, has died."""
    from pytest_vperf.targets.once import Once

    made = Once(
        connect,
        gone=lambda daemon: not daemon.connection.is_alive,
        end=lambda daemon: daemon.close(),
    )
    shared.append(made)
    return made


@pytest.fixture(scope="session")
def guest_kernel(request: pytest.FixtureRequest) -> Callable[[], GuestKernel]:
    """The kernel of whole machines, as a function: ``--guest-kernel``, else the distribution's."""
    from pytest_vperf.targets.kernel.guest_kernel import distribution_kernel, from_file
    from pytest_vperf.targets.once import Once

    named = claims_session(request.config).settings.guest_kernel
    return Once(lambda: from_file(named) if named else distribution_kernel())


@pytest.fixture(scope="session")
def named_daemon(
    request: pytest.FixtureRequest,
    vperf_run: Run,
    elsewhere: Callable[[], RemoteMachine] | None,
    lab_host_daemon: Callable[[str], Daemon],
    _shared: list[Once[Any]],
) -> Iterator[Callable[[str], Daemon | None]]:
    """The daemon with a driver, ``qemu`` or ``xen``, of ``--libvirt-uri`` or ``--on``, if one was named."""
    from pytest_vperf.targets.remote import address
    from pytest_vperf.targets.virt import connect

    settings = claims_session(request.config).settings

    def there(machine: Callable[[], RemoteMachine], driver: str) -> Daemon:
        from pytest_vperf.targets.remote.libvirt import daemon_of

        return daemon_of(machine(), driver, vperf_run)

    def of_lab(kind: str, driver: str) -> Daemon:
        from pytest_vperf.lab.kinds import KINDS
        from pytest_vperf.targets.base import Unavailable

        if KINDS[kind].scheme != driver:
            raise Unavailable(f"lab {kind} has no libvirt with the driver {driver}")
        return lab_host_daemon(kind)

    found = {
        name: _daemon(functools.partial(connect.connect, uri, vperf_run), _shared)
        for name, uri in settings.libvirt_uris.items()
    }
    if elsewhere is not None:
        kind = address.lab_of(settings.on)
        start = functools.partial(of_lab, kind) if kind else functools.partial(there, elsewhere)
        for driver in ("qemu", "xen"):
            found.setdefault(driver, _daemon(functools.partial(start, driver), _shared))
    yield lambda name: found[name]() if name in found else None
    for once in found.values():
        for daemon in once.made:
            daemon.close()


@pytest.fixture(scope="session")
def lab_daemon(
    request: pytest.FixtureRequest,
    lab_host_daemon: Callable[[str], Daemon],
    _shared: list[Once[Any]],
) -> Iterator[Callable[[str], Daemon | None]]:
    """The daemon of a lab's host, ``kvm`` or ``xen``, if ``--lab`` names it; started at the first call."""
    labs = claims_session(request.config).settings.labs
    found = {kind: _daemon(functools.partial(lab_host_daemon, kind), _shared) for kind in labs}
    yield lambda kind: found[kind]() if kind in found else None
    for once in found.values():
        for daemon in once.made:
            daemon.close()


@pytest.fixture(scope="session")
def lab_host_daemon(request: pytest.FixtureRequest, vperf_run: Run) -> Callable[[str], Daemon]:
    """Connects to the daemon of a lab's host, ``kvm`` or ``xen``, which is started where it is not up."""

    def start(kind: str) -> Daemon:
        from pytest_vperf.targets.virt import connect

        get: Callable[[str], LabHost] = request.getfixturevalue("lab")
        host = get(kind)
        return connect.connect(
            host.uri,
            vperf_run,
            details=dict(host.details),
            ssh=(host.ssh_url, host.ssh_config),
        )

    return start


@pytest.fixture(scope="session")
def libvirt_daemon(
    vperf_run: Run, named_daemon: Callable[[str], Daemon | None], _shared: list[Once[Any]]
) -> Iterator[Callable[[], Daemon]]:
    """The daemon with QEMU's driver, as a function: the named one, else this machine's, or one of the run's own."""
    from pytest_vperf.targets.virt import connect

    found = _daemon(lambda: connect.find(vperf_run), _shared)
    yield lambda: named_daemon("qemu") or found()
    for daemon in found.made:
        daemon.close()


@pytest.fixture(scope="session")
def kvm_host(
    libvirt_daemon: Callable[[], Daemon],
    named_daemon: Callable[[str], Daemon | None],
    lab_daemon: Callable[[str], Daemon | None],
    guest_kernel: Callable[[], GuestKernel],
    rootfs_for: Callable[[bool], Callable[[], Rootfs]],
    pod_assets_for: Callable[[bool], Callable[[], Assets]],
    vperf_run: Run,
    _shared: list[Once[Any]],
) -> Callable[[], KvmHost]:
    """Where guests have KVM, as a function: tried at the first call. This machine comes before a lab."""
    from pytest_vperf.targets.guest.probe import probe_kvm
    from pytest_vperf.targets.once import Once
    from pytest_vperf.targets.pod.probe import probe
    from pytest_vperf.targets.virt.choice import choose_kvm

    def local() -> Readiness:
        # The same KVM as for pods, and what is known of it is remembered from run to run.
        return probe("kvm", pod_assets_for(False), vperf_run)

    chosen = Once(
        lambda: choose_kvm(
            named=lambda: named_daemon("qemu"),
            local=local,
            here=libvirt_daemon,
            lab=lambda: lab_daemon("kvm"),
            probe=lambda daemon: probe_kvm(daemon, guest_kernel()),
        ),
        gone=lambda host: host.daemon is not None and not host.daemon.connection.is_alive,
    )
    _shared.append(chosen)
    return chosen


@pytest.fixture(scope="session")
def xen_daemon(
    vperf_run: Run,
    named_daemon: Callable[[str], Daemon | None],
    lab_daemon: Callable[[str], Daemon | None],
    _shared: list[Once[Any]],
) -> Iterator[Callable[[], Daemon]]:
    """The daemon with Xen's driver, as a function: the named one, else this machine's, else a lab's."""
    from pytest_vperf.targets.virt import connect

    here = _daemon(lambda: connect.find_xen(vperf_run), _shared)

    def choose() -> Daemon:
        named = named_daemon("xen")
        if named is not None:
            return named
        if not connect.is_dom0():
            daemon = lab_daemon("xen")
            if daemon is not None:
                return daemon
        return here()

    yield choose
    for daemon in here.made:
        daemon.close()
