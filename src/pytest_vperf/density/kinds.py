"""What each kind of target needs to fill a host: how it is started, limited, and found as a process."""

from __future__ import annotations

import os
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pytest_vperf.density.bounds import available, reserve
from pytest_vperf.machine.procfile import content
from pytest_vperf.targets.base import Unavailable
from pytest_vperf.targets.control_group import MemoryGroup

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence

    from pytest_vperf.machine.runs import Run
    from pytest_vperf.targets.base import Target
    from pytest_vperf.targets.container.containers import Containers
    from pytest_vperf.targets.guest.guests import Guests
    from pytest_vperf.targets.kinds import TargetKind
    from pytest_vperf.targets.pod.pods import Pods
    from pytest_vperf.targets.scope import Scope
    from pytest_vperf.targets.xen.domus import Domus

    #: What a test's fixtures start targets with.
    Starter = Containers | Pods | Guests | Domus

_HERE = "a host is filled where pytest-vperf runs: its memory is watched all the time"


@dataclass(frozen=True)
class Kind:
    """Targets of one kind, to fill a host with.

    Attributes:
        name: in messages.
        start: starts one; called by several threads.
        available: bytes that their host could still give.
        defaults: of ``start``: what the documents give each of them.
        group: what holds them all to their memory; ``None``: they are watched only.
        watched: why, where there is no group.
        pids: of targets, the process whose memory each has; ``None`` where none is on this host.
        has_memory: whether each has a kernel of its own, whose account of memory is its own.
        outside: whether each takes memory that the group does not hold, as a container's shim does.
    """

    name: str
    start: Callable[..., Target]
    available: Callable[[], int]
    defaults: Mapping[str, Any] = field(default_factory=dict)
    group: MemoryGroup | None = None
    watched: str = ""
    pids: Callable[[Sequence[Target]], list[int | None]] = lambda targets: [None] * len(targets)
    has_memory: bool = True
    outside: bool = False


def kept_of(starter: Starter) -> int:
    """Bytes that the host of such targets keeps by default; Xen's own memory never counts as free."""
    from pytest_vperf.targets.xen.domus import Domus

    return 0 if isinstance(starter, Domus) else reserve()


def kind_of(
    kinds: Iterable[TargetKind],
    starter: Starter,
    run: Run,
    scope: Scope,
    limit: Callable[[int], int],
) -> Kind:
    """A starter of the same targets as a test's fixture, for a filling.

    Args:
        kinds: those of targets.
        starter: the fixture.
        run: owns the control group.
        scope: owns the targets.
        limit: of what the host could give, in bytes, how much the targets may have.

    Raises:
        Unavailable: such targets are unavailable here, or cannot be limited or watched.
        TypeError: it is not such a fixture.
    """
    if getattr(starter, "accelerator", "") == "xen":
        raise Unavailable("no host is filled with pods on Xen", remedy="domus", target="pod xen")
    fillable = [kind for kind in kinds if kind.fill]
    for kind in fillable:
        if kind.starts(starter):
            found: Kind = kind.filling(starter, run, scope, limit)
            return found
    names = [f"{kind.name}s" for kind in fillable]
    raise TypeError(
        f"density() fills a host with {', '.join(names[:-1])} or {names[-1]}, not with {starter!r}"
    )


def of_pods(starter: Pods, run: Run, scope: Scope, limit: Callable[[int], int]) -> Kind:
    """Pods."""
    name = f"pod {starter.accelerator}"
    starter.sharing(None, scope)  # it may be for another machine
    group = MemoryGroup(run, limit(available()), name)
    pods = starter.sharing(group, scope)
    return Kind(name, pods.start, available, group=group, pids=_pids)


def of_domus(starter: Domus, run: Run, scope: Scope, limit: Callable[[int], int]) -> Kind:
    """DomUs; the memory is the hypervisor's, which gives a domU all of its memory at once."""
    watched = "Xen gives each all of its memory at once, or refuses"
    return Kind("domu", starter.owned_by(scope).start, starter.free_memory, watched=watched)


def of_containers(starter: Containers, run: Run, scope: Scope, limit: Callable[[int], int]) -> Kind:
    """Containers."""
    engine = starter.engine
    if engine.machine is not None or not engine.url.startswith("unix://"):
        raise Unavailable(_HERE, remedy="call pytest-vperf on that machine", target=starter.name)
    driver = engine.info.get("CgroupDriver")
    group, watched = None, ""
    if driver == "cgroupfs" and os.geteuid() == 0:
        group = MemoryGroup(run, limit(available()), starter.name)
    else:
        watched = f"the engine makes control groups with {driver}, as user {os.geteuid()}"
    # Files of control groups are read back for each limit, which a runtime may not enforce: it is then not measured.
    defaults = {"cpus": 1.0, "memory": "512 MiB"}
    return Kind(
        starter.name,
        starter.sharing(group, scope).start,
        available,
        defaults,
        group,
        watched,
        _pids,
        has_memory=False,
        outside=True,
    )


def of_guests(starter: Guests, run: Run, scope: Scope, limit: Callable[[int], int]) -> Kind:
    """Guests."""
    daemon, name = starter.daemon, f"guest {starter.accelerator}"
    if daemon.is_remote:
        remedy = "call pytest-vperf on that machine"
        raise Unavailable(_HERE, remedy=remedy, target=f"{name}{daemon.mark}")
    group, watched = None, ""
    if Path("/run/systemd/system").is_dir():
        watched = "on a machine with systemd, libvirt has its groups made by machined"
    else:
        group = MemoryGroup(run, limit(available()), name)
    try:
        guests = starter.sharing(group, scope)
    except BaseException:
        if group is not None:
            group.close()
        raise
    return Kind(name, guests.start, available, group=group, watched=watched, pids=_of_guests)


def _pids(targets: Sequence[Any]) -> list[int | None]:
    return [target.pid for target in targets]


def _of_guests(targets: Sequence[Any]) -> list[int | None]:
    """The QEMU process of each, by the name in its command line: the daemon may be in another PID namespace."""
    found: dict[str, int] = {}
    for entry in os.listdir("/proc"):  # noqa: PTH208 - names are all that is wanted
        if not entry.isdigit():
            continue
        words = (content(Path(f"/proc/{entry}/cmdline")) or "").split("\0")
        if "qemu" in words[0]:
            names = {part for word in words for part in word.split(",")}
            found |= {name.removeprefix("guest="): int(entry) for name in names if "guest=" in name}
    return [found.get(target.identity) for target in targets]
