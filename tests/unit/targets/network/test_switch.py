"""Hosts on the run's network leave nothing behind, and their addresses are free again. Needs root."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

import pytest

from pytest_vperf.machine import networks
from pytest_vperf.machine.runs import Run
from pytest_vperf.targets.base import TargetError, Unavailable
from pytest_vperf.targets.host import EmbeddedHost
from pytest_vperf.targets.network import addresses, commands, switch
from pytest_vperf.targets.network.addresses import Addresses
from pytest_vperf.targets.network.commands import ip_json
from pytest_vperf.targets.network.switch import Namespace, Switch

if TYPE_CHECKING:
    from collections.abc import Iterator
    from ipaddress import IPv4Network
    from pathlib import Path

pytestmark = pytest.mark.skipif(os.geteuid() != 0, reason="network namespaces need root")


@pytest.fixture
def run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Run]:
    monkeypatch.setenv("VPERF_RUNS_DIR", str(tmp_path / "runs"))
    with Run.begin() as run:
        yield run
        assert networks.namespaces_of(run.id) == networks.links_of(run.id) == []


@pytest.fixture
def made(run: Run, monkeypatch: pytest.MonkeyPatch) -> Iterator[Switch]:
    class Few(Addresses):
        """Only two addresses: the host's, and one more."""

        def __init__(self, subnet: IPv4Network) -> None:
            super().__init__(subnet)
            self._free = type(self._free)(list(self._free)[:2])

    monkeypatch.setattr(addresses, "Addresses", Few)
    try:
        made = Switch(run)
    except Unavailable as error:
        pytest.skip(str(error))
    yield made
    made.close()


def ports(made: Switch) -> set[str]:
    return {entry["ifname"] for entry in ip_json("link", "show", namespace=made._namespace.path)}


def test_another_host_goes_with_its_test_and_its_address_is_free(made: Switch, run: Run) -> None:
    before = ports(made)
    seen = set()
    for _ in range(2):
        with EmbeddedHost(*made.new_host(), run=run) as other:
            assert other.link is not None
            seen.add(other.link.details()["address"])
            assert len(networks.namespaces_of(run.id)) == 2
            with pytest.raises(TargetError, match="are in use by this run"):
                made.new_host()
        other.close()
        assert ports(made) == before
        assert len(networks.namespaces_of(run.id)) == 1
    assert len(seen) == 1


def test_a_tap_that_cannot_be_made_keeps_no_address(
    made: Switch, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(*_: object) -> int:
        raise Unavailable("a tap cannot be made")

    monkeypatch.setattr(switch, "open_tap", refuse)
    for _ in range(2):
        with pytest.raises(Unavailable, match="a tap cannot be made"):
            made.card()


def test_a_namespace_half_made_is_removed(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    real = commands.ip

    def interrupt(*words: str, namespace: Path | None = None) -> str:
        if "lo" in words:
            raise KeyboardInterrupt
        if "add" in words:
            networks.NAMESPACES.mkdir(exist_ok=True)
            (networks.NAMESPACES / words[-1]).touch()  # so far it had come
            return ""
        return real(*words, namespace=namespace)

    monkeypatch.setattr(switch, "ip", interrupt)
    with pytest.raises(KeyboardInterrupt):
        Namespace.create(networks.namespace_name(run.id, "unit"))


def test_a_namespace_of_that_name_is_left_alone(made: Switch) -> None:
    name = made._namespace.name
    with pytest.raises(TargetError, match=f"a network namespace {name} already exists"):
        Namespace.create(name)
    assert made._namespace.exists
