"""What a test asks for to have two ends: the run's own network, and another host on it."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from pytest_vperf.stash import claims_session

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from pytest_vperf.machine.runs import Run
    from pytest_vperf.targets.host import Host
    from pytest_vperf.targets.image import Rootfs
    from pytest_vperf.targets.load_host import EmbeddedHost
    from pytest_vperf.targets.network.switch import Switch
    from pytest_vperf.targets.network.user_mode import UserNetwork
    from pytest_vperf.targets.remote.machine import RemoteMachine
    from pytest_vperf.targets.scope import Scope
    from pytest_vperf.targets.ssh_host import SshHost


@pytest.fixture(scope="session")
def vperf_switch(vperf_run: Run) -> Iterator[Callable[[], Switch]]:
    """The run's own network, as a function: made when it is first called, removed at the end."""
    from pytest_vperf.targets.network.switch import Switch
    from pytest_vperf.targets.once import Once

    make = Once(lambda: Switch(vperf_run))
    yield make
    for made in make.made:
        made.close()


@pytest.fixture
def network(
    host: Host,
    vperf_switch: Callable[[], Switch],
    elsewhere: Callable[[], RemoteMachine] | None,
) -> Switch | UserNetwork:
    """The network that targets are started on: ``containers.start(network=network)``; the host is on it already.

    For root a bridge in a namespace of its own. For others the user-mode network of QEMU, which pods alone can have.
    """
    import os

    if elsewhere is not None:
        from pytest_vperf.targets.base import Unavailable

        raise Unavailable(
            f"the run's own network is on this machine, and targets are started on another one ({host.name})",
            remedy="use guests.network or domus.network, which libvirt makes there; or call pytest-vperf there",
        )
    from pytest_vperf.targets.network.user_mode import UserNetwork

    found: Switch | UserNetwork = vperf_switch() if os.geteuid() == 0 else UserNetwork()
    host.link = found.host
    return found


@pytest.fixture
def other_host(
    request: pytest.FixtureRequest,
    vperf_run: Run,
    scope: Scope,
    host: Host,
    elsewhere: Callable[[], RemoteMachine] | None,
) -> EmbeddedHost | SshHost:
    """Another host, for the other end of a test or for its load; see ``--load-host``.

    By default a network namespace of this machine, on the run's own network; else a machine that is reached by SSH,
    with which the host alone can talk.
    """
    url = claims_session(request.config).settings.load_host
    if url:
        from pytest_vperf.targets.ssh_host import SshHost

        remote = scope.own(SshHost(url, vperf_run))
        if (
            elsewhere is None
        ):  # another machine is reached by its own address, and not by this one's
            host.link = remote.local
        return remote
    from pytest_vperf.targets.load_host import EmbeddedHost
    from pytest_vperf.targets.network.switch import Switch

    network = request.getfixturevalue("network")
    if not isinstance(network, Switch):
        from pytest_vperf.targets.base import Unavailable

        raise Unavailable(
            "only root can make another host on this machine",
            remedy="run as root, or name a machine with --load-host=ssh://…",
            target=EmbeddedHost.name,
        )
    rootfs: Callable[[], Rootfs] | None = None
    if not claims_session(request.config).settings.host_tools:
        rootfs = request.getfixturevalue("rootfs")
    namespace, link = network.new_host()
    return scope.own(
        EmbeddedHost(namespace, link, vperf_run, rootfs, tools="image" if rootfs else "host")
    )
