"""What libvirt pushes: a machine's life, and its agent coming and going.

libvirt calls back from its event loop, which one thread of this process runs for all connections. What it says is
dated with the host's monotonic clock and kept for whoever waits for the machine of that name.
"""

from __future__ import annotations

import threading
import time
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from types import ModuleType

_started = threading.Lock()
_running: list[threading.Thread] = []


def run_event_loop(libvirt: ModuleType) -> None:
    """Have libvirt's event loop run, once for the process; before the first connection is opened."""
    with _started:
        if _running:
            return
        libvirt.virEventRegisterDefaultImpl()

        def loop() -> None:
            while True:
                libvirt.virEventRunDefaultImpl()

        thread = threading.Thread(target=loop, name="libvirt events", daemon=True)
        _running.append(thread)
        thread.start()


@dataclass
class Watch:
    """What was pushed about one machine.

    Attributes:
        agent: when its agent connected, on time.perf_counter()'s clock; ``None``: it has not, or has gone.
        ended: why the machine is no more, e.g. ``crashed``; empty while it is there.
        lost: why nothing is pushed any more; empty while the connection is there.
    """

    agent: float | None = None
    ended: str = ""
    lost: str = ""
    _changed: threading.Condition = field(default_factory=threading.Condition, repr=False)

    def tell(self, **news: Any) -> None:
        """Take news; who waits looks again."""
        with self._changed:
            for name, value in news.items():
                setattr(self, name, value)
            self._changed.notify_all()

    def wait(self, deadline: float) -> bool:
        """Wait until the agent is there, or it cannot come any more; false at the deadline."""
        with self._changed:
            return self._changed.wait_for(
                lambda: self.agent is not None or bool(self.ended or self.lost),
                max(0.0, deadline - time.perf_counter()),
            )

    def wait_end(self, deadline: float) -> bool:
        """Wait until the machine has ended, or nobody would say so; false at the deadline."""
        with self._changed:
            return self._changed.wait_for(
                lambda: bool(self.ended or self.lost), max(0.0, deadline - time.perf_counter())
            )


class Watches:
    """The watches of one connection, by the machine's name."""

    def __init__(self, libvirt: ModuleType, handle: Any) -> None:
        self._libvirt = libvirt
        self._watches: dict[str, Watch] = {}
        for event, told in (
            (libvirt.VIR_DOMAIN_EVENT_ID_LIFECYCLE, self._life),
            (libvirt.VIR_DOMAIN_EVENT_ID_AGENT_LIFECYCLE, self._agent),
        ):
            try:
                handle.domainEventRegisterAny(None, event, told, None)
            except libvirt.libvirtError:  # Xen's driver has no agent to tell of
                continue
        handle.registerCloseCallback(self._closed, None)

    def add(self, name: str) -> Watch:
        """Watch a machine from now on: before it is made, or its first events are missed."""
        watch = self._watches[name] = Watch()
        return watch

    def remove(self, name: str) -> None:
        """Watch it no longer."""
        self._watches.pop(name, None)

    def _life(self, _: Any, domain: Any, event: int, detail: int, __: Any) -> None:
        libvirt = self._libvirt
        watch = self._watches.get(domain.name())
        if watch is None:
            return
        if event == libvirt.VIR_DOMAIN_EVENT_STOPPED:
            watch.tell(ended=_STOPPED.get(detail, "stopped"), agent=None)
        elif event == libvirt.VIR_DOMAIN_EVENT_CRASHED:
            watch.tell(ended="its kernel panicked", agent=None)

    def _agent(self, _: Any, domain: Any, state: int, __: int, ___: Any) -> None:
        now = time.perf_counter()
        watch = self._watches.get(domain.name())
        if watch is None:
            return
        connected = state == self._libvirt.VIR_CONNECT_DOMAIN_EVENT_AGENT_LIFECYCLE_STATE_CONNECTED
        watch.tell(agent=now if connected else None)

    def _closed(self, _: Any, reason: int, __: Any) -> None:
        why = _CLOSED.get(reason, "closed")
        for watch in list(self._watches.values()):
            watch.tell(lost=why, agent=None)


#: virDomainEventStoppedDetailType and virConnectCloseReason, in the order of libvirt-domain.h and libvirt-host.h.
_STOPPED = dict(
    enumerate(
        (
            "it shut down",
            "it was destroyed",
            "it crashed",
            "it was migrated away",
            "it was saved",
            "its hypervisor failed",
            "it was replaced by a snapshot",
        )
    )
)
_CLOSED = dict(
    enumerate(
        (
            "an error on its connection",
            "the daemon has gone",
            "the daemon does not answer",
            "it was closed",
        )
    )
)
