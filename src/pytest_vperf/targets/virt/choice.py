"""Which host guests with KVM are started on: the one that was named, this machine, or a lab's."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from pytest_vperf.machine.preflight import Readiness

if TYPE_CHECKING:
    from collections.abc import Callable

    from pytest_vperf.targets.virt.daemon import Daemon

LAB_HINT = "--lab=kvm, which starts a host with KVM inside QEMU"


@dataclass(frozen=True)
class KvmHost:
    """Where guests have KVM.

    Attributes:
        daemon: ``None``: nowhere.
        readiness: whether they do, and why not.
    """

    daemon: Daemon | None
    readiness: Readiness


def choose_kvm(
    *,
    named: Callable[[], Daemon | None],
    local: Callable[[], Readiness],
    here: Callable[[], Daemon],
    lab: Callable[[], Daemon | None],
    probe: Callable[[Daemon], Readiness],
) -> KvmHost:
    """Try, in order, what was named; this machine; a lab. What was named is not exchanged for another.

    Args:
        named: the daemon that the user named, if any.
        local: whether KVM works on this machine.
        here: this machine's daemon.
        lab: the lab's, if one was asked for.
        probe: tries a daemon's KVM.
    """
    daemon = named()
    if daemon is not None:
        return KvmHost(daemon, probe(daemon))
    ready = local()
    if ready.usable:
        daemon = here()
        ready = probe(daemon)
        if ready.usable:
            return KvmHost(daemon, ready)
    daemon = lab()
    if daemon is not None:
        return KvmHost(daemon, probe(daemon))
    remedy = f"{ready.remedy}; or {LAB_HINT}" if ready.remedy else LAB_HINT
    return KvmHost(None, Readiness("guest kvm", False, f"no KVM here: {ready.why}", remedy))
