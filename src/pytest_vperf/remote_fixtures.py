"""The machine of ``--on`` as fixtures: reached when the first target on it is wanted."""

from __future__ import annotations

import functools
from typing import TYPE_CHECKING, Any

import pytest

from pytest_vperf.stash import claims_session

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from pytest_vperf.lab.host import LabHost
    from pytest_vperf.machine.runs import Run
    from pytest_vperf.targets.once import Once
    from pytest_vperf.targets.pod.place import Place
    from pytest_vperf.targets.remote.address import Address
    from pytest_vperf.targets.remote.machine import RemoteMachine


@pytest.fixture(scope="session")
def elsewhere(
    request: pytest.FixtureRequest, _shared: list[Once[Any]]
) -> Iterator[Callable[[], RemoteMachine] | None]:
    """The machine of ``--on``, as a function: reached at the first call; ``None`` where targets are on this one."""
    on = claims_session(request.config).settings.on
    if not on:
        yield None
        return
    from pytest_vperf.reporting import notice
    from pytest_vperf.targets.once import Once
    from pytest_vperf.targets.remote.machine import RemoteMachine

    run: Run = request.getfixturevalue("vperf_run")
    session = claims_session(request.config)
    say = functools.partial(notice.say, request.config)

    def connect() -> RemoteMachine:
        machine = RemoteMachine(_address(request, on), run, say=say)
        session.hardware.measures_on(machine.address.where, machine.fingerprint)
        return machine

    reach = Once(connect, gone=lambda machine: machine.is_gone, end=lambda machine: machine.close())
    _shared.append(reach)
    yield reach
    for made in reach.made:
        made.close()


def _address(request: pytest.FixtureRequest, on: str) -> Address:
    from pytest_vperf.targets.remote import address

    kind = address.lab_of(on)
    if not kind:
        return address.of_url(on)
    get: Callable[[str], LabHost] = request.getfixturevalue("lab")
    host = get(kind)
    details = tuple(host.details.items())
    return address.Address(host.ssh_url, address.where(on), host.ssh_config, details)


@pytest.fixture(scope="session")
def pod_place(
    request: pytest.FixtureRequest, elsewhere: Callable[[], RemoteMachine] | None
) -> Place:
    """The machine that pods are started on."""
    if elsewhere is None:
        from pytest_vperf.targets.pod.place import HERE

        return HERE
    from pytest_vperf.targets.remote import address
    from pytest_vperf.targets.remote.pods import PodsThere

    return PodsThere(elsewhere, address.where(claims_session(request.config).settings.on))
