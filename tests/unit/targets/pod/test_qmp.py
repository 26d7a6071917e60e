"""QEMU's control socket with a faulty peer."""

from __future__ import annotations

import contextlib
import json
import socket
import threading
from typing import TYPE_CHECKING, Any

import pytest

from pytest_vperf.targets.pod.qmp import Qmp, QmpError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

GREETING = {"QMP": {"version": {"qemu": {"major": 7, "minor": 2, "micro": 0}}, "capabilities": []}}


@pytest.fixture
def speaking() -> Iterator[Callable[..., Qmp]]:
    """Makes a connection to a peer that sends one message after each command, and leaves."""
    made: list[Qmp] = []

    def make(*said: Any) -> Qmp:
        ours, theirs = socket.socketpair()

        def speak() -> None:
            with theirs, contextlib.suppress(OSError):
                for each in said:
                    theirs.sendall(json.dumps(each).encode() + b"\r\n")
                    theirs.recv(1 << 16)

        threading.Thread(target=speak, daemon=True).start()
        made.append(Qmp(ours))
        return made[-1]

    yield make
    for each in made:
        each.close()


@pytest.mark.parametrize("value", [{}, [], 7, None, {"enabled": 1}, {"enabled": "true"}])
def test_an_answer_without_the_field_is_an_error(
    speaking: Callable[..., Qmp], value: object
) -> None:
    qmp = speaking(GREETING, {"return": {}}, {"return": value, "id": "__qmp#00000"})
    qmp.connect(10.0)
    with pytest.raises(QmpError) as caught:
        qmp.field("query-kvm", "enabled", bool)
    assert str(caught.value) == "query-kvm: the answer has no enabled"
