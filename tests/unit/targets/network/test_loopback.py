"""A target that is both ends of a network test."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from pytest_vperf.targets.base import Completed, Unavailable
from pytest_vperf.targets.network.link import LoopbackLink, on_loopback


class Machine:
    """Runs nothing, and records the commands."""

    name = "pod tcg qboot"

    def __init__(self, status: int = 0, said: bytes = b"") -> None:
        self.link: Any = None
        self.commands: list[list[str]] = []
        self._status, self._said = status, said

    def run(self, argv: Any, *, timeout: float, check: bool) -> Completed:
        self.commands.append(list(argv))
        return Completed(tuple(argv), self._status, b"", self._said, 0.0)


def test_a_machine_reaches_its_own_server() -> None:
    machine = on_loopback(Machine())
    assert machine.commands == [["ip", "address", "replace", "192.0.2.1/32", "dev", "lo"]]
    assert (machine.link.listen, machine.link.address_for(machine.link)) == 2 * ("192.0.2.1",)
    on_loopback(machine)
    assert len(machine.commands) == 1


def test_a_target_on_a_network_keeps_its_link() -> None:
    machine = Machine()
    machine.link = link = SimpleNamespace(kind="tap")
    assert on_loopback(machine).link is link
    assert machine.commands == []


def test_others_have_no_route_to_a_loopback_link() -> None:
    with pytest.raises(Unavailable, match="no route from a loopback link to the loopback device"):
        LoopbackLink().address_for(LoopbackLink())


def test_a_machine_that_takes_no_address_has_no_link() -> None:
    machine = Machine(2, b"RTNETLINK answers: Operation not permitted\n")
    with pytest.raises(Unavailable) as caught:
        on_loopback(machine)
    assert str(caught.value) == (
        "the loopback device of pod tcg qboot cannot be given an address: RTNETLINK answers: Operation not permitted"
    )
    assert machine.link is None
