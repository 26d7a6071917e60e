"""libvirt's events, passed to waiting threads."""

from __future__ import annotations

import threading
import time
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import pytest

from pytest_vperf.targets.libvirt.connection import Watch, Watches

if TYPE_CHECKING:
    from types import ModuleType


def later(action: Any) -> threading.Timer:
    timer = threading.Timer(0.02, action)
    timer.start()
    return timer


def soon() -> float:
    return time.perf_counter() + 10


def test_waiting_for_the_agent_is_reported() -> None:
    watch = Watch()
    timer = later(lambda: watch.tell(agent=12.5))
    assert watch.wait(soon())
    timer.join()
    assert watch.agent == 12.5


@pytest.mark.parametrize("news", [{"ended": "it crashed"}, {"lost": "closed"}])
def test_a_machines_end_wakes_those_waiting_for_its_agent(news: dict[str, str]) -> None:
    watch = Watch()
    timers = [later(lambda: watch.tell(**news))]
    assert watch.wait(soon())
    assert watch.wait_end(soon())
    assert watch.agent is None
    timers[0].join()


def test_all_waiting_threads_are_woken() -> None:
    watch, told = Watch(), []
    threads = [
        threading.Thread(target=lambda: told.append(watch.wait_end(soon()))) for _ in range(4)
    ]
    for thread in threads:
        thread.start()
    watch.tell(ended="it shut down")
    for thread in threads:
        thread.join(10)
    assert told == [True] * 4


def test_a_wait_without_events_ends_at_the_deadline() -> None:
    watch = Watch()
    began = time.perf_counter()
    assert not watch.wait(began + 0.03)
    assert time.perf_counter() >= began + 0.03
    assert not watch.wait_end(began - 1)
    watch.tell(agent=1.0)
    assert not watch.wait_end(time.perf_counter() + 0.01)  # an agent is no end


class Handle:
    """A connection that records the callbacks."""

    def __init__(self, libvirt: ModuleType, without: tuple[int, ...] = ()) -> None:
        self._libvirt, self._without = libvirt, without
        self.called: dict[int, Any] = {}
        self.closed: Any = None

    def domainEventRegisterAny(self, domain: None, event: int, call: Any, opaque: None) -> int:
        if event in self._without:
            raise self._libvirt.libvirtError("unsupported event")
        self.called[event] = call
        return len(self.called)

    def registerCloseCallback(self, call: Any, opaque: None) -> None:
        self.closed = call


def state(watch: Watch) -> tuple[float | None, str, str]:
    return watch.agent, watch.ended, watch.lost


def domain(name: str) -> Any:
    return SimpleNamespace(name=lambda: name)


def test_events_reach_only_the_watch_of_their_machine(libvirt: ModuleType) -> None:
    handle = Handle(libvirt)
    watches = Watches(libvirt, handle)
    mine, other = watches.add("mine"), watches.add("other")
    before = time.perf_counter()
    handle.called[libvirt.VIR_DOMAIN_EVENT_ID_AGENT_LIFECYCLE](None, domain("mine"), 1, 1, None)
    came, *_ = state(mine)
    assert came is not None
    assert before <= came <= time.perf_counter()
    handle.called[libvirt.VIR_DOMAIN_EVENT_ID_AGENT_LIFECYCLE](None, domain("mine"), 2, 2, None)
    assert state(mine) == (None, "", "")
    assert state(other) == (None, "", "")
    for event in handle.called.values():  # of somebody else's machine
        event(None, domain("foreign"), 5, 0, None)
    assert state(mine) == state(other) == (None, "", "")


@pytest.mark.parametrize(
    ("event", "detail", "why"),
    [
        ("VIR_DOMAIN_EVENT_STOPPED", "VIR_DOMAIN_EVENT_STOPPED_SHUTDOWN", "it shut down"),
        ("VIR_DOMAIN_EVENT_STOPPED", "VIR_DOMAIN_EVENT_STOPPED_DESTROYED", "it was destroyed"),
        ("VIR_DOMAIN_EVENT_STOPPED", "VIR_DOMAIN_EVENT_STOPPED_CRASHED", "it crashed"),
        ("VIR_DOMAIN_EVENT_STOPPED", "VIR_DOMAIN_EVENT_STOPPED_FAILED", "its hypervisor failed"),
        ("VIR_DOMAIN_EVENT_STOPPED", 99, "stopped"),
        ("VIR_DOMAIN_EVENT_CRASHED", 0, "its kernel panicked"),
        (4, 0, ""),  # resumed
    ],
)
def test_lifecycle_events_say_why_a_machine_ended(
    libvirt: ModuleType, numbers: dict[str, int], event: str | int, detail: str | int, why: str
) -> None:
    handle = Handle(libvirt)
    watch = Watches(libvirt, handle).add("mine")
    watch.tell(agent=1.0)
    handle.called[libvirt.VIR_DOMAIN_EVENT_ID_LIFECYCLE](
        None,
        domain("mine"),
        numbers[event] if isinstance(event, str) else event,
        numbers[detail] if isinstance(detail, str) else detail,
        None,
    )
    assert watch.ended == why
    assert watch.agent == (None if why else 1.0)


@pytest.mark.parametrize(
    ("reason", "why"),
    [
        ("VIR_CONNECT_CLOSE_REASON_ERROR", "an error on its connection"),
        ("VIR_CONNECT_CLOSE_REASON_EOF", "the daemon has gone"),
        ("VIR_CONNECT_CLOSE_REASON_KEEPALIVE", "the daemon does not answer"),
        ("VIR_CONNECT_CLOSE_REASON_CLIENT", "it was closed"),
        (99, "closed"),
    ],
)
def test_all_watches_see_the_end_of_the_connection(
    libvirt: ModuleType, numbers: dict[str, int], reason: str | int, why: str
) -> None:
    handle = Handle(libvirt)
    watches = Watches(libvirt, handle)
    mine, other, done = watches.add("mine"), watches.add("other"), watches.add("done")
    watches.remove("done")
    handle.closed(None, numbers[reason] if isinstance(reason, str) else reason, None)
    assert (mine.lost, other.lost, done.lost) == (why, why, "")


def test_a_driver_without_agent_events_is_watched_all_the_same(libvirt: ModuleType) -> None:
    handle = Handle(libvirt, (libvirt.VIR_DOMAIN_EVENT_ID_AGENT_LIFECYCLE,))
    watch = Watches(libvirt, handle).add("domu")
    handle.called[libvirt.VIR_DOMAIN_EVENT_ID_LIFECYCLE](None, domain("domu"), 5, 1, None)
    assert watch.ended == "it was destroyed"
