"""A start that fails between the process and the machine leaves no process behind."""

from __future__ import annotations

import asyncio
import errno
import os
from pathlib import PurePath
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import pytest
from fake_machine import FakeQemu

from pytest_vperf.targets.pod.config import MachineConfig
from pytest_vperf.targets.pod.pod import boot

if TYPE_CHECKING:
    from collections.abc import Iterator


@pytest.fixture
def qemu() -> Iterator[FakeQemu]:
    made = FakeQemu()
    yield made
    made.end()


def test_a_process_that_cannot_be_spoken_to_is_ended(
    qemu: FakeQemu, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its control connection needs file descriptors, of which none may be left where many pods run."""

    def none_left() -> Any:
        raise OSError(errno.EMFILE, os.strerror(errno.EMFILE))

    place = SimpleNamespace(
        mark="", group=lambda *_: None, ready=lambda *_: lambda: qemu, details={}
    )
    assets: Any = SimpleNamespace(place=place, qemu="qemu", details=lambda *_: {})
    file = PurePath("/nowhere")
    config = MachineConfig("tcg", file, file, file, file)
    monkeypatch.setattr(asyncio, "new_event_loop", none_left)
    run: Any = None
    with pytest.raises(OSError, match="Too many open files"):
        boot(assets, config, "qboot", run, command=("true",), timeout=5)
    assert qemu.status == -9
