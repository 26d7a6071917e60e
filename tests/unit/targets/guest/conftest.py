"""A fake guest agent behind libvirt's call, with answers given by the test."""

from __future__ import annotations

import json
import sys
from types import ModuleType, SimpleNamespace
from typing import TYPE_CHECKING, Any

import pytest

from pytest_vperf.targets.guest.guest import GuestAgent
from pytest_vperf.targets.libvirt.connection import Watch

if TYPE_CHECKING:
    from collections.abc import Callable

#: As in the library; `test_guest_agent.py` compares them with it where it is installed.
NUMBERS = {
    "VIR_ERR_INTERNAL_ERROR": 1,
    "VIR_ERR_NO_CONNECT": 5,
    "VIR_ERR_INVALID_CONN": 6,
    "VIR_ERR_SYSTEM_ERROR": 38,
    "VIR_ERR_RPC": 39,
    "VIR_ERR_NO_DOMAIN": 42,
    "VIR_ERR_OPERATION_INVALID": 55,
    "VIR_ERR_AGENT_UNRESPONSIVE": 86,
    "VIR_FROM_RPC": 7,
    "VIR_FROM_REMOTE": 13,
}


class Refusal(Exception):
    """libvirt's error."""

    def __init__(self, message: str, code: int = NUMBERS["VIR_ERR_INTERNAL_ERROR"]) -> None:
        super().__init__(message)
        self._message, self._code = message, code

    def get_error_message(self) -> str:
        return self._message

    def get_error_code(self) -> int:
        return self._code

    def get_error_domain(self) -> int:
        return 10  # VIR_FROM_QEMU


class Guest:
    """A guest's agent as seen from the host.

    Attributes:
        answers: the agent's, by command; one that is an error is raised.
        orders: what it was told.
        timeouts: seconds that it was given for each.
        ended: whether the guest has ended.
        connected: whether its agent's port is open.
        paused: seconds of each pause between two looks.
        pausing: called with them.
    """

    def __init__(self, libvirt: ModuleType) -> None:
        self.libvirt = libvirt
        self.error = Refusal
        self.answers: dict[str, Callable[..., Any]] = {"guest-ping": dict}
        self.orders: list[tuple[str, dict[str, Any]]] = []
        self.timeouts: list[int] = []
        self.ended = False
        self.connected = False
        self.paused: list[float] = []
        self.pausing: Callable[[float], None] = self.paused.append
        self.domain: Any = SimpleNamespace(
            name="guest tcg",
            handle="the domain",
            why_gone=lambda: "it crashed",
            last_words=lambda: "\nits console ended with:\nOops",
            watch=Watch(),
            why_stopped=lambda: "",
            pause=lambda seconds: self.pausing(seconds),
        )

    def command(self, domain: str, text: str, timeout: int, flags: int) -> str:
        assert (domain, flags) == ("the domain", 0)
        self.domain.ended = self.ended
        self.domain.watch.agent = 1.0 if self.connected else None
        order = json.loads(text)
        arguments = order.get("arguments", {})
        self.orders.append((order["execute"], arguments))
        self.timeouts.append(timeout)
        plain = {name.replace("-", "_"): value for name, value in arguments.items()}
        return json.dumps({"return": self.answers[order["execute"]](**plain)})

    def given(self, command: str) -> list[dict[str, Any]]:
        """The arguments of every order of a kind."""
        return [arguments for name, arguments in self.orders if name == command]

    def refuse(self, command: str, words: str, code: str = "VIR_ERR_INTERNAL_ERROR") -> None:
        def answer(**_: Any) -> None:
            raise Refusal(words, NUMBERS[code])

        self.answers[command] = answer

    def agent(self) -> GuestAgent:
        return GuestAgent(SimpleNamespace(libvirt=self.libvirt), self.domain)  # type: ignore[arg-type]


@pytest.fixture
def machine(monkeypatch: pytest.MonkeyPatch) -> Guest:
    """A guest; the library is one of this test's."""
    libvirt = ModuleType("libvirt")
    for name, number in NUMBERS.items():
        setattr(libvirt, name, number)
    libvirt.libvirtError = Refusal  # type: ignore[attr-defined]
    libvirt.registerErrorHandler = lambda *_: None  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, "libvirt", libvirt)
    guest = Guest(libvirt)
    qemu = ModuleType("libvirt_qemu")
    qemu.qemuAgentCommand = guest.command  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, "libvirt_qemu", qemu)
    return guest


@pytest.fixture
def numbers() -> dict[str, int]:
    return NUMBERS
