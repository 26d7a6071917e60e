"""Removing an engine's containers at the end of a run: several at a time, and only while the engine answers."""

from __future__ import annotations

import time
from types import SimpleNamespace
from typing import Any

import requests

from pytest_vperf.targets.container.engine import Engine


def engine_with(remove: Any, count: int) -> Engine:
    """An engine with this many containers of the run."""
    api = SimpleNamespace(
        containers=lambda **_: [{"Id": f"{number}"} for number in range(count)],
        remove_container=lambda container, **_: remove(container),
    )
    client: Any = SimpleNamespace(api=api, close=lambda: None)
    run: Any = SimpleNamespace(id="1")
    return Engine(client, "unix:///run/docker.sock", run)


def test_many_are_removed_several_at_a_time() -> None:
    removed: list[str] = []

    def slowly(container: str) -> None:
        time.sleep(0.1)
        removed.append(container)

    began = time.monotonic()
    engine_with(slowly, 40).close()
    assert sorted(map(int, removed)) == list(range(40))
    assert time.monotonic() - began < 2


def test_an_unresponsive_engine_is_not_asked_about_each_container() -> None:
    asked: list[str] = []

    def never(container: str) -> None:
        asked.append(container)
        time.sleep(0.05)
        raise requests.ReadTimeout(TimeoutError("timed out"))

    engine_with(never, 200).close()
    assert len(asked) < 50
