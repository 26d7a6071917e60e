"""A container's start by the clock, and whether it stays; and taking one away.

The clock runs from before the engine is asked to make the container until it has answered that the container's
process runs.

How a container comes to the run's own network, although its engine has none to offer.

A runtime whose containers share the host's kernel starts them without an interface, and a link is put into their
namespace once they run. gVisor's own network stack takes over what interfaces its namespace has *when it starts*, and
cannot get one later: so a small container of ``runc`` is started before it and given the link, and gVisor's container
joins the namespace of that one. It holds the namespace and does nothing else; it goes with the container.
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


# Seconds after the clock was stopped in which a process that ends has "ended at once". An engine notices
# the end of a process in a sandbox a little after its start has returned.
_SETTLED = 0.05


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


_numbers = itertools.count(1)
_HOLDS = "the namespace is held by a container of runc, because {runtime} wants its link before it starts"


@dataclass(frozen=True)
class Attachment:
    """What a container is started with.

    Attributes:
        mode: the engine's ``network_mode``.
        runtime: the engine's name of the runtime.
        switch: where the container is to be plugged in once it runs; ``None`` where nothing is left to do.
        link: the link, where it is there before the container.
        holder: the ID of the container that holds the namespace; empty without one.
    """

    mode: str
    runtime: str
    switch: Switch | None = None
    link: SwitchLink | None = None
    holder: str = ""

    def complete(self, identity: str, pid: int) -> SwitchLink | None:
        """The container runs: plug it in, if that is still to be done.

        Args:
            identity: the container's ID.
            pid: its first process.

        Raises:
            Unavailable: its namespace cannot be seen from here.
        """
        if self.switch is None:
            return self.link
        return self.switch.join(namespace_of(identity, pid))

    def abandon(self, engine: Engine) -> None:
        """The container did not start: take away what was made for it."""
        if self.link is not None:
            self.link.close()
        if self.holder:
            discard(engine, self.holder)


def attach(
    network: str | Switch, runtime: str, engine: Engine, image: str, run: Run, target: str
) -> Attachment:
    """Prepare a container's network, outside the clock.

    Args:
        network: the engine's network by name; or the run's own switch.
        runtime: the OCI runtime.
        engine: will run the container.
        image: of the container.
        run: owns what is started.
        target: the container's name, for messages.

    Raises:
        Unavailable: the engine's containers cannot be plugged in from here, or cannot have the host's network.
        CannotStart: the container that is to hold the namespace did not start; with runc's words.
    """
    if network == "host" and engine.private:
        # It would be the daemon's own namespace, with nothing in it.
        raise Unavailable(
            "the Docker engine that is private to the run is apart from the host's network",
            remedy='start the Docker engine of this machine, or leave out network="host"',
            target=target,
        )
    if isinstance(network, str):
        return Attachment(network, runtime)
    if runtime in runtimes.SHARES_FILES:
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
    """The file of a container's network namespace.

    Raises:
        Unavailable: the engine is on another machine, or in other PIDs' namespaces: this process is not its.
    """
    path = Path(f"/proc/{pid}/ns/net")
    groups: Sequence[str] = list(paths_of(pid).values())
    if not any(identity in group for group in groups):
        raise Unavailable(
            "the container's process is not one of this machine, so no link can be put into its namespace",
            remedy="use an engine of this machine, without user namespaces",
        )
    if os.geteuid() != 0:
        raise Unavailable(
            "only root can put a link into a container's namespace", remedy="run as root"
        )
    if not path.exists():
        raise TargetError(f"the container's process {pid} has ended")
    return path
