"""What a container has used of the host: its control group's account, else its processes'."""

from __future__ import annotations

import contextlib
from typing import TYPE_CHECKING, Any

from pytest_vperf.targets.base import CannotConnect, Unavailable, Usage
from pytest_vperf.targets.container_limits import holds, is_sandbox
from pytest_vperf.targets.engine_address import answering

if TYPE_CHECKING:
    from pytest_vperf.targets.engine import Engine


def usage(engine: Engine, container: str, pid: int, target: str) -> Usage:
    """CPU time since the container was made, and the memory it has now.

    Args:
        engine: the engine that has it.
        container: its ID.
        pid: its first process, as the engine numbers it.
        target: its name in messages.

    Raises:
        CannotConnect: the container or the engine is gone.
        Unavailable: its account is kept by nobody, and the engine is on another machine.
    """
    if not holds(pid, container, engine.read) and is_sandbox(pid, container, engine.read):
        if engine.machine is not None:
            raise Unavailable(
                f"its runtime puts it in no control group, and the processes of {engine.machine.address.where} are"
                " not looked at from here",
                target=target,
            )
        return _of_processes(pid)
    return _of_engine(engine, container, target)


def _of_engine(engine: Engine, container: str, target: str) -> Usage:
    from docker.errors import APIError, InvalidVersion

    api: Any = engine.client.api
    try:
        with answering(engine.url, target=target):
            try:
                stats = api.stats(container, stream=False, one_shot=True)
            except InvalidVersion:  # before API 1.41 an answer takes a second
                stats = api.stats(container, stream=False)
    except APIError as error:
        raise CannotConnect(f"{target} is gone: {error.explanation}", target=target) from error
    try:
        cpu_time = stats["cpu_stats"]["cpu_usage"]["total_usage"] / 1e9
        memory = stats["memory_stats"]["usage"]
    except KeyError:  # the engine answers with empty figures for a container that has ended
        raise CannotConnect(f"{target} has ended: it uses nothing now", target=target) from None
    # File pages that the kernel can drop at once are not counted, as `docker stats` has it.
    details = stats["memory_stats"].get("stats", {})
    droppable = details.get("total_inactive_file", details.get("inactive_file", 0))
    return Usage(cpu_time=cpu_time, memory=max(0, memory - droppable))


def _of_processes(pid: int) -> Usage:
    """A sandbox outside of any control group: its processes one by one.

    Memory is the proportional set size, in which a page that two of them share is counted once.
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
