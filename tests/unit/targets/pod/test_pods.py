"""A pod that does not start leaves no card on its network."""

from __future__ import annotations

import os
from types import SimpleNamespace
from typing import Any

import pytest

from pytest_vperf.machine.preflight import Readiness
from pytest_vperf.targets.base import CannotStart, TargetError, Unavailable
from pytest_vperf.targets.network.card import Card
from pytest_vperf.targets.pod import pods
from pytest_vperf.targets.pod.pods import Pods
from pytest_vperf.targets.scope import Scope


class Link:
    """A link that records whether it was closed."""

    kind, listen, ports = "tap", "198.18.4.2", ()
    closed = 0

    def address_for(self, _: object) -> str:
        return self.listen

    def details(self) -> dict[str, str]:
        return {}

    def close(self) -> None:
        self.closed += 1


class Network:
    """Gives out one card with a descriptor."""

    def __init__(self) -> None:
        self.link = Link()
        self.descriptor = os.open(os.devnull, os.O_RDONLY)

    def card(self, *, vhost: bool = False, reaches_host: bool = False) -> Card:
        return Card("tap", "02:00:00:00:00:01", "198.18.4.2/24", self.link, (self.descriptor,))


def refuse(error: Exception) -> Any:
    def call(*_: object, **__: object) -> None:
        raise error

    return call


@pytest.mark.parametrize(
    ("config", "boot", "arguments", "error"),
    [
        (None, None, {"vcpus": 0}, CannotStart),
        (None, None, {"memory": "much"}, Exception),
        (refuse(Unavailable("no firmware")), None, {}, Unavailable),
        (lambda *_, **__: None, refuse(TargetError("QEMU ended")), {}, TargetError),
    ],
)
def test_a_start_that_fails_takes_the_card_back(
    monkeypatch: pytest.MonkeyPatch,
    config: Any,
    boot: Any,
    arguments: dict[str, Any],
    error: type[Exception],
) -> None:
    monkeypatch.setattr(
        pods, "probe", lambda *_, **__: Readiness("accelerator tcg", True, "booted")
    )
    monkeypatch.setattr(pods, "boot", boot)
    network = Network()
    run: Any = None
    assets: Any = SimpleNamespace(config=config)
    with pytest.raises(error):
        Pods(lambda: assets, run, Scope(), accelerator="tcg").start(network=network, **arguments)
    with pytest.raises(OSError, match="Bad file descriptor"):
        os.fstat(network.descriptor)
    assert network.link.closed == 1


def test_an_accelerator_is_tried_with_other_files_than_those_in_question(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    tried: list[Any] = []

    def probe(_: str, prepared: Any, __: Any, **___: Any) -> Readiness:
        tried.append(prepared())
        return Readiness("accelerator tcg", True, "booted")

    monkeypatch.setattr(pods, "probe", probe)
    monkeypatch.setattr(pods, "boot", refuse(CannotStart("the kernel in question panics")))
    run: Any = None
    in_question: Any = SimpleNamespace(config=lambda *_, **__: None)
    usual: Any = SimpleNamespace()
    machines = Pods(lambda: in_question, run, Scope(), accelerator="tcg", probed=lambda: usual)
    with pytest.raises(CannotStart, match="the kernel in question panics"):
        machines.start()
    assert tried == [usual]


def test_a_machine_that_does_not_take_its_address_ends(monkeypatch: pytest.MonkeyPatch) -> None:
    network = Network()
    closed: list[str] = []
    pod = SimpleNamespace(close=lambda: closed.append("pod"))
    monkeypatch.setattr(
        pods, "probe", lambda *_, **__: Readiness("accelerator tcg", True, "booted")
    )
    monkeypatch.setattr(pods, "boot", lambda *_, **__: pod)
    monkeypatch.setattr(pods, "plug_in", refuse(TargetError("it does not take its address")))
    run: Any = None
    assets: Any = SimpleNamespace(config=lambda *_, **__: None)
    with pytest.raises(TargetError, match="it does not take its address"):
        Pods(lambda: assets, run, Scope(), accelerator="tcg").start(network=network)
    assert closed == ["pod"]
    assert network.link.closed == 1
