"""The limits of a container, as the engine's arguments and as read back from its control groups, and its usage.

The engine's word is not enough: an OCI runtime may be configured to leave control groups alone, and then the engine
still reports the requested limits, and the whole machine's usage as the container's.
"""

from __future__ import annotations

import contextlib
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pytest_vperf.machine import cgroups
from pytest_vperf.machine.procfile import text
from pytest_vperf.targets.base import CannotConnect, Unavailable, Usage
from pytest_vperf.targets.container.address import answering
from pytest_vperf.targets.limits import CAPS, PERIOD, Limits, check, names

if TYPE_CHECKING:
    from collections.abc import Mapping

    from pytest_vperf.machine.procfile import Read
    from pytest_vperf.targets.container.engine import Engine


#: Default limit of a container's processes and threads: twice Podman's (podman-run(1), "--pids-limit"), and more than
#: the workloads here start. It stops a fork bomb.
PIDS = 4096
#: Arguments for every container. Its programs gain no privileges by set-user-ID bits or file capabilities (Linux
#: documentation, userspace-api/no_new_privs). The output of its first process is kept in two files of 1 MiB, and its
#: last lines are quoted if it ends at once; the driver "none" would lose them.
CONFINED: Mapping[str, Any] = {
    "security_opt": ["no-new-privileges"],
    "log_config": {"Type": "json-file", "Config": {"max-size": "1m", "max-file": "2"}},
    "pids_limit": PIDS,
}


def confined(limits: Limits) -> dict[str, Any]:
    """The arguments of the SDK's ``create_host_config``: those for every container, and the limits."""
    return {**CONFINED, **host_config(limits)}


def host_config(limits: Limits) -> dict[str, object]:
    """The requested limits as such arguments."""
    wanted: dict[str, object | None] = {
        # Not "nano_cpus", which the engine rounds down to a quota: what is read back has to equal ours.
        "cpu_period": None if limits.cpus is None else PERIOD,
        "cpu_quota": limits.quota,
        "cpuset_cpus": limits.cpuset,
        "cpu_shares": limits.cpu_shares,
        "mem_limit": limits.memory,
        "memswap_limit": limits.memory,  # memory and swap together: no swap
        "pids_limit": limits.pids,
    }
    for name, (_, _, argument) in CAPS.items():
        caps = [
            {"Path": disk.device, "Rate": value}
            for disk in limits.disks
            if (value := getattr(disk, name)) is not None
        ]
        wanted[argument] = caps or None
    return {name: value for name, value in wanted.items() if value is not None}


def holds(pid: int, container: str, read: Read = text) -> bool:
    """Whether a process is visible to ``read``, and in the container's own control groups."""
    return any(container in path for path in cgroups.paths_of(pid, read).values())


def read_back(
    asked: Limits, pid: int, container: str, target: str, read: Read = text
) -> dict[str, str]:
    """The requested limits, as read back from the control groups.

    Args:
        asked: the requested limits.
        pid: the container's first process, in the engine's PID namespace.
        container: the container's ID.
        target: its name, for messages.
        read: reads files on the engine's machine.

    Returns:
        Setting → value, as in the control group's file.

    Raises:
        Unavailable: the runtime gives the container no control groups of its own, or the engine is on another
            machine, whose files cannot be read.
        CannotStart: a limit is not as requested.
    """
    if not asked:
        return {}
    paths, points = cgroups.paths_of(pid, read), cgroups.hierarchies(read)
    found: dict[str, str] = {}
    for controller in asked.controllers:
        old = "blkio" if controller == "io" else controller
        folder, first = _own_folder(old, container, paths, points)
        if folder is None:
            path = paths[old] if first else paths.get("", "")
            wanted = ", ".join(names(asked))
            here = is_sandbox(pid, container, read)
            why = (
                f"its runtime does not enforce it: process {pid} is in the control group {path or '/'!r}"
                f" of {old}, not in the container's own"
                if here
                else "it cannot be read back: no process of the container is visible on this machine"
            )
            raise Unavailable(f"asked for {wanted}, but {why}", target=target)
        settings = asked.settings(controller, 1 if first else 2)
        found |= check(settings, folder, target, read=read)
    return found


def _own_folder(
    controller: str, container: str, paths: Mapping[str, str], points: Mapping[str, Path]
) -> tuple[Path | None, bool]:
    """The folder of a container's own group, if it has one, and whether the controller is one of version 1.

    Args:
        controller: by its name in version 1.
        container: the container's ID.
        paths: of its first process, see `cgroups.paths_of`.
        points: see `cgroups.hierarchies`.
    """
    first = controller in paths and controller in points
    name = controller if first else ""
    path = paths.get(name, "")
    if name not in points or container not in path:
        return None, first
    return points[name] / path.lstrip("/"), first


def is_sandbox(pid: int, container: str, read: Read = text) -> bool:
    """Whether a process is a container's sandbox, judging by its command line."""
    try:
        return container in read(Path(f"/proc/{pid}/cmdline"))
    except OSError:
        return False


def usage(engine: Engine, container: str, pid: int, target: str) -> Usage:
    """CPU time since the container was created, and the memory it has now.

    Args:
        engine: its engine.
        container: its ID.
        pid: its first process, in the engine's PID namespace.
        target: its name in messages.

    Raises:
        CannotConnect: the container or the engine is gone.
        Unavailable: it is in no control group, and the engine is on another machine.
    """
    if holds(pid, container, engine.read):
        with contextlib.suppress(OSError, LookupError, ValueError):
            return _of_group(pid, container, engine.read)
    elif is_sandbox(pid, container, engine.read):
        if engine.machine is not None:
            raise Unavailable(
                f"its runtime puts it in no control group, and the processes of {engine.machine.address.where}"
                " cannot be examined from here",
                target=target,
            )
        return _of_processes(pid)
    return _of_engine(engine, container, target)


def _of_group(pid: int, container: str, read: Read) -> Usage:
    """By the files of its control groups, at once: an engine may take a second to answer.

    Raises:
        OSError, LookupError, ValueError: a file is not there, or has another form.
    """
    paths, points = cgroups.paths_of(pid, read), cgroups.hierarchies(read)

    def files(controller: str) -> tuple[Path, bool]:
        folder, first = _own_folder(controller, container, paths, points)
        if folder is None:
            raise LookupError(controller)
        return folder, first

    def line(file: Path, name: str) -> int:
        return int(dict(each.split() for each in read(file).splitlines())[name])

    folder, first = files("cpuacct")
    if first:
        cpu_time = int(read(folder / "cpuacct.usage")) / 1e9
    else:
        cpu_time = line(folder / "cpu.stat", "usage_usec") / 1e6
    folder, first = files("memory")
    memory = int(read(folder / ("memory.usage_in_bytes" if first else "memory.current")))
    droppable = line(folder / "memory.stat", "total_inactive_file" if first else "inactive_file")
    return Usage(cpu_time=cpu_time, memory=_without(droppable, memory))


def _without(droppable: int, memory: int) -> int:
    """Like ``docker stats``, do not count file pages that the kernel can drop at once."""
    return max(0, memory - droppable)


def _of_engine(engine: Engine, container: str, target: str) -> Usage:
    from docker.errors import APIError, InvalidVersion

    api: Any = engine.client.api
    try:
        with answering(engine.url, target=target):
            try:
                stats = api.stats(container, stream=False, one_shot=True)
            except InvalidVersion:  # before API 1.41, which takes a second
                stats = api.stats(container, stream=False)
    except APIError as error:
        raise CannotConnect(f"{target} is gone: {error.explanation}", target=target) from error
    try:
        cpu_time = stats["cpu_stats"]["cpu_usage"]["total_usage"] / 1e9
        memory = stats["memory_stats"]["usage"]
    except KeyError:  # the engine omits the figures of a container that has ended
        raise CannotConnect(f"{target} has ended: it uses nothing now", target=target) from None
    details = stats["memory_stats"].get("stats", {})
    droppable = details.get("total_inactive_file", details.get("inactive_file", 0))
    return Usage(cpu_time=cpu_time, memory=_without(droppable, memory))


def _of_processes(pid: int) -> Usage:
    """The sum over the processes of a sandbox that is in no control group.

    Memory is the proportional set size, which counts a shared page once.
    """
    import psutil

    cpu_time, memory = 0.0, 0
    sandbox = psutil.Process(pid)
    for process in (sandbox, *sandbox.children(recursive=True)):
        with contextlib.suppress(psutil.Error):
            times = process.cpu_times()
            cpu_time += times.user + times.system
            memory += process.memory_full_info().pss
    return Usage(cpu_time=cpu_time, memory=memory)
