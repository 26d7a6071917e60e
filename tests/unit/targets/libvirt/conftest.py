"""A stand-in for libvirt where it is not installed: its constants and its error class."""

from __future__ import annotations

import sys
from types import ModuleType
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from collections.abc import Iterator

#: As in the library; `test_virt_failures.py` compares them with it where it is installed.
NUMBERS = {
    "VIR_ERR_INTERNAL_ERROR": 1,
    "VIR_ERR_NO_CONNECT": 5,
    "VIR_ERR_INVALID_CONN": 6,
    "VIR_ERR_OPERATION_FAILED": 9,
    "VIR_ERR_SYSTEM_ERROR": 38,
    "VIR_ERR_RPC": 39,
    "VIR_ERR_NO_DOMAIN": 42,
    "VIR_FROM_RPC": 7,
    "VIR_FROM_QEMU": 10,
    "VIR_FROM_REMOTE": 13,
    "VIR_DOMAIN_CONSOLE_FORCE": 1,
    "VIR_STREAM_NONBLOCK": 1,
    "VIR_STREAM_EVENT_READABLE": 1,
    "VIR_STREAM_EVENT_ERROR": 4,
    "VIR_STREAM_EVENT_HANGUP": 8,
    "VIR_DOMAIN_EVENT_ID_LIFECYCLE": 0,
    "VIR_DOMAIN_EVENT_ID_AGENT_LIFECYCLE": 18,
    "VIR_DOMAIN_EVENT_STOPPED": 5,
    "VIR_DOMAIN_EVENT_STOPPED_SHUTDOWN": 0,
    "VIR_DOMAIN_EVENT_STOPPED_DESTROYED": 1,
    "VIR_DOMAIN_EVENT_STOPPED_CRASHED": 2,
    "VIR_DOMAIN_EVENT_STOPPED_FAILED": 5,
    "VIR_DOMAIN_EVENT_CRASHED": 8,
    "VIR_CONNECT_CLOSE_REASON_ERROR": 0,
    "VIR_CONNECT_CLOSE_REASON_EOF": 1,
    "VIR_CONNECT_CLOSE_REASON_KEEPALIVE": 2,
    "VIR_CONNECT_CLOSE_REASON_CLIENT": 3,
    "VIR_CONNECT_DOMAIN_EVENT_AGENT_LIFECYCLE_STATE_CONNECTED": 1,
    "VIR_CONNECT_DOMAIN_EVENT_AGENT_LIFECYCLE_STATE_DISCONNECTED": 2,
}


class Refusal(Exception):
    """libvirt's error."""

    def __init__(self, message: str = "", code: int = 0, domain: int = 0) -> None:
        super().__init__(message)
        self._message, self._code, self._domain = message, code, domain

    def get_error_message(self) -> str:
        return self._message

    def get_error_code(self) -> int:
        return self._code

    def get_error_domain(self) -> int:
        return self._domain


@pytest.fixture
def libvirt(monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    """Stands in for the library; ``libvirtError(words, code, domain)`` is its error."""
    made = ModuleType("libvirt")
    for name, number in NUMBERS.items():
        setattr(made, name, number)
    made.libvirtError = Refusal  # type: ignore[attr-defined]
    made.registerErrorHandler = lambda *_: None  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, "libvirt", made)
    return made


@pytest.fixture
def numbers() -> dict[str, int]:
    return NUMBERS


@pytest.fixture
def test_driver() -> Iterator[Any]:
    """A connection to libvirt's test driver: the real library, with machines that exist only in it."""
    pytest.importorskip("libvirt", reason="libvirt-python is not installed")
    from pytest_vperf.targets.libvirt.connection import Connection

    connection = Connection.open("test:///default")
    yield connection
    connection.close()
