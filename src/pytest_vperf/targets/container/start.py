"""A container's start by the clock, and whether it stays; and taking one away.

The clock runs from before the engine is asked to make the container until it has answered that the container's
process runs.
"""

from __future__ import annotations

import contextlib
import time
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING, Any

from pytest_vperf.targets.base import CannotConnect, CannotStart
from pytest_vperf.targets.engine_address import answering
from pytest_vperf.targets.phases import startup_quantity

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from pytest_vperf.quantity import Quantity
    from pytest_vperf.targets.engine import Engine

# Seconds after the clock was stopped in which a process that ends has "ended at once". An engine notices
# the end of a process in a sandbox a little after its start has returned.
_SETTLED = 0.05
#: How many containers are removed at a time: the engine has the work, and each of them waits.
_AT_ONCE = 8


def timed_start(
    engine: Engine, request: Mapping[str, Any], name: str, target: str
) -> tuple[str, Quantity]:
    """Make a container and start its process; nothing else happens between the clock's readings.

    Args:
        engine: runs it.
        request: for the engine; ready.
        name: of the container, by which it is removed where its ID did not arrive.
        target: for messages.

    Returns:
        Its ID, and the time in ms with the engine's two requests as parts.

    Raises:
        CannotStart: the runtime refused; with its words. Nothing is left of the container.
    """
    from docker.errors import APIError

    api: Any = engine.client.api
    identity = ""
    try:
        begin = time.perf_counter()
        identity = api.create_container_from_config(request, name)["Id"]
        created = time.perf_counter()
        api.start(identity)
        started = time.perf_counter()
    except APIError as error:
        discard(engine, identity or name)
        raise CannotStart(f"{target} did not start: {words(error)}", target=target) from error
    except BaseException:
        discard(engine, identity or name)
        raise
    marks = {"create": created, "start": started}
    return identity, startup_quantity(begin, marks, marks)


def running(engine: Engine, identity: str, target: str) -> dict[str, Any]:
    """What the engine says of a container that has started, a moment later.

    Raises:
        CannotStart: it has ended; with its status and what it printed.
    """
    api: Any = engine.client.api
    deadline = time.monotonic() + _SETTLED
    state: dict[str, Any] = api.inspect_container(identity)
    while state["State"]["Running"] and time.monotonic() < deadline:
        time.sleep(0.01)
        state = api.inspect_container(identity)
    if not state["State"]["Running"]:
        said = api.logs(identity, tail=20).decode("utf-8", "replace").strip()
        raise CannotStart(
            f"{target} ended at once with status {state['State']['ExitCode']}"
            + (f":\n{said}" if said else " and no output"),
            target=target,
        )
    return state


def words(error: Any) -> str:
    """The runtime's own words in an engine's answer."""
    return str(error.explanation or error).strip().removesuffix(": unknown")


def discard(engine: Engine, container: str) -> None:
    """Remove a container by ID or name; quiet if it, or the engine, is gone."""
    from docker.errors import APIError

    api: Any = engine.client.api
    with contextlib.suppress(CannotConnect, APIError), answering(engine.url):
        api.remove_container(container, force=True, v=True)


def remove_all(api: Any, containers: Sequence[Mapping[str, Any]]) -> None:
    """Remove what an engine lists, several at a time: a test that fills a host may have left hundreds.

    Args:
        api: the engine's.
        containers: as it lists them.

    Raises:
        whatever an engine that does not answer raises; the others are not asked for then.
    """
    from docker.errors import APIError

    def remove(container: Mapping[str, Any]) -> None:
        with contextlib.suppress(APIError):  # gone meanwhile
            api.remove_container(container["Id"], force=True, v=True)

    pool = ThreadPoolExecutor(_AT_ONCE, thread_name_prefix="engine-end")
    try:
        for _ in pool.map(remove, containers):
            pass
    finally:
        pool.shutdown(cancel_futures=True)
