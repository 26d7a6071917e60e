"""Starting a container and timing it, removing one, and attaching one to the run's own network.

A start is timed from just before the request to create the container until the engine reports that its process runs.

The engine knows nothing of that network. Containers that share the host's kernel are started without an interface,
and get a link once they run. gVisor's own network stack only takes over the interfaces that its namespace has *when
it starts*: so a ``runc`` container is started first and given the link, and gVisor's container joins its namespace.
That first container only holds the namespace, and is removed along with the other one.
"""

from __future__ import annotations

import contextlib
import itertools
import os
import time
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pytest_vperf.machine.cgroups import paths_of
from pytest_vperf.targets.base import (
    CannotConnect,
    CannotStart,
    TargetError,
    Unavailable,
    startup_quantity,
)
from pytest_vperf.targets.container import runtimes
from pytest_vperf.targets.container.address import answering
from pytest_vperf.targets.container.limits import confined
from pytest_vperf.targets.limits import Limits

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from pytest_vperf.machine.runs import Run
    from pytest_vperf.quantity import Quantity
    from pytest_vperf.targets.container.engine import Engine
    from pytest_vperf.targets.network.link import SwitchLink
    from pytest_vperf.targets.network.switch import Switch


# Seconds after the start in which a process that ends has "ended at once". An engine notices the end of a process in
# a sandbox a little after the start has returned.
_SETTLED = 0.05


def timed_start(
    engine: Engine, request: Mapping[str, Any], name: str, target: str
) -> tuple[str, Quantity]:
    """Create a container and start its process; nothing else is timed.

    Args:
        engine: runs it.
        request: for the engine, complete.
        name: the container's, to remove it by if its ID did not arrive.
        target: for messages.

    Returns:
        Its ID, and the time in ms, broken down by the engine's two requests.

    Raises:
        CannotStart: the runtime refused; with its message. Nothing is left of the container.
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
    """The engine's description of a container, a moment after its start.

    Raises:
        CannotStart: it has ended; with its status and the end of its output.
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
    """The runtime's message in an engine's error."""
    return str(error.explanation or error).strip().removesuffix(": unknown")


def discard(engine: Engine, container: str) -> None:
    """Remove a container by ID or name; no error if it or the engine is gone."""
    from docker.errors import APIError

    api: Any = engine.client.api
    with contextlib.suppress(CannotConnect, APIError), answering(engine.url):
        api.remove_container(container, force=True, v=True)


_numbers = itertools.count(1)
_HOLDS = "the namespace is held by a container of runc, because {runtime} needs its link before it starts"


@dataclass(frozen=True)
class Attachment:
    """How a container is attached to its network.

    Attributes:
        mode: the engine's ``network_mode``.
        runtime: the engine's name of the runtime.
        switch: to plug the container into once it runs; ``None`` if nothing is left to do.
        link: the link, if it was made before the container.
        holder: the ID of the container that holds the namespace; empty without one.
    """

    mode: str
    runtime: str
    switch: Switch | None = None
    link: SwitchLink | None = None
    holder: str = ""

    def complete(self, identity: str, pid: int) -> SwitchLink | None:
        """Plug the running container in, if that is still to be done, and return its link.

        Args:
            identity: the container's ID.
            pid: its first process.

        Raises:
            Unavailable: its namespace is not accessible from here.
        """
        if self.switch is None:
            return self.link
        return self.switch.join(namespace_of(identity, pid))

    def abandon(self, engine: Engine) -> None:
        """Remove what was made for a container that did not start."""
        if self.link is not None:
            self.link.close()
        if self.holder:
            discard(engine, self.holder)


def attach(
    network: str | Switch, runtime: str, engine: Engine, image: str, run: Run, target: str
) -> Attachment:
    """Prepare a container's network before its start is timed.

    Args:
        network: the engine's network by name; or the run's own switch.
        runtime: the OCI runtime.
        engine: will run the container.
        image: the container's.
        run: owns what is started.
        target: the container's name, for messages.

    Raises:
        Unavailable: the engine's containers cannot be plugged in from here, or cannot use the host's network.
        CannotStart: the container that holds the namespace did not start; with runc's message.
    """
    if network == "host" and engine.private:
        # It would be the daemon's own namespace, which is empty.
        raise Unavailable(
            "the run's private Docker engine is separate from the host's network",
            remedy='start the Docker engine of this machine, or leave out network="host"',
            target=target,
        )
    if isinstance(network, str):
        return Attachment(network, runtime)
    if runtimes.shares_files(runtime):
        return Attachment("none", runtime, network)
    holder = _start_holder(engine, image, run, target)
    try:
        pid = int(engine.client.api.inspect_container(holder)["State"]["Pid"])
        link = network.join(namespace_of(holder, pid), note=_HOLDS.format(runtime=runtime))
    except BaseException:
        discard(engine, holder)
        raise
    known = runtimes.networked(runtime, engine.runtimes())
    return Attachment(f"container:{holder}", known, None, link, holder)


def _start_holder(engine: Engine, image: str, run: Run, target: str) -> str:
    api: Any = engine.client.api
    request: Mapping[str, Any] = api.create_container_config(
        image,
        ["sleep", "infinity"],
        labels=run.labels,
        stop_signal="SIGKILL",
        host_config=api.create_host_config(
            network_mode="none", runtime="runc", **confined(Limits())
        ),
    )
    name = f"vperf-{run.id}-network{next(_numbers)}"
    identity, _ = timed_start(engine, request, name, f"the holder of the network of {target}")
    return identity


def namespace_of(identity: str, pid: int) -> Path:
    """The path of a container's network namespace.

    Raises:
        Unavailable: the engine is on another machine or in another PID namespace, so that ``pid`` is not its process
            here.
    """
    path = Path(f"/proc/{pid}/ns/net")
    groups: Sequence[str] = list(paths_of(pid).values())
    if not any(identity in group for group in groups):
        raise Unavailable(
            "the container's process is not visible on this machine, so no link can be put into its namespace",
            remedy="use an engine of this machine, without user namespaces",
        )
    if os.geteuid() != 0:
        raise Unavailable(
            "only root can put a link into a container's namespace", remedy="run as root"
        )
    if not path.exists():
        raise TargetError(f"the container's process {pid} has ended")
    return path
