"""A container that ends at once has not started: how long it is watched, and the error."""

from __future__ import annotations

import time

import pytest

from pytest_vperf.targets.agent.wire import Frame, Type
from pytest_vperf.targets.base import CannotStart
from pytest_vperf.targets.pod.machine import settle, settling_time


@pytest.mark.parametrize(
    ("start", "phase", "seconds"),
    [(0.3, 0.01, 0.05), (2.6, 0.08, 0.16), (8.0, 0.15, 0.4), (20.0, 0.0, 1.0)],
)
def test_a_slow_start_is_watched_for_longer(start: float, phase: float, seconds: float) -> None:
    assert settling_time(start, phase) == pytest.approx(seconds)


def test_a_container_that_stays_has_started() -> None:
    began = time.perf_counter()
    settle(lambda _: [], "pod tcg", ("sleep",), 0.02)
    assert time.perf_counter() - began >= 0.02


@pytest.mark.parametrize(
    ("said", "words"), [(b"", " and no output"), (b"no such file\n", ":\nno such file")]
)
@pytest.mark.parametrize("seconds", [0.0, 5.0])
def test_a_container_that_ends_at_once_has_not_started(
    said: bytes, words: str, seconds: float
) -> None:
    """Also where its frames are first read after that time."""
    came = [Frame(Type.ERRORS, 1, said), Frame(Type.EXIT, 1, (127).to_bytes(4, "little"))]
    with pytest.raises(CannotStart) as caught:
        settle(lambda _: came, "pod xen (lab xen)", ("sh", "-c", "x"), seconds)
    assert str(caught.value) == (
        f"pod xen (lab xen): its container ended at once (sh -c x) with status 127{words}"
    )
    assert caught.value.target == "pod xen (lab xen)"
