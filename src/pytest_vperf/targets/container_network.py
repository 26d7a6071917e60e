"""How a container comes to the run's own network, although its engine has none to offer.

A runtime whose containers share the host's kernel starts them without an interface, and a link is put into their
namespace once they run. gVisor's own network stack takes over what interfaces its namespace has *when it starts*, and
cannot get one later: so a small container of ``runc`` is started before it and given the link, and gVisor's container
joins the namespace of that one. It holds the namespace and does nothing else; it goes with the container.
"""

from __future__ import annotations

import itertools
import os
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pytest_vperf.machine.cgroups import paths_of
from pytest_vperf.targets import oci_runtimes
from pytest_vperf.targets.base import TargetError, Unavailable
from pytest_vperf.targets.container_limits import confined
from pytest_vperf.targets.container_start import discard, timed_start
from pytest_vperf.targets.limits import Limits

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from pytest_vperf.machine.runs import Run
    from pytest_vperf.targets.engine import Engine
    from pytest_vperf.targets.network.link import SwitchLink
    from pytest_vperf.targets.network.switch import Switch

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
    if runtime in oci_runtimes.SHARES_FILES:
        return Attachment("none", runtime, network)
    holder = _start_holder(engine, image, run, target)
    try:
        pid = int(engine.client.api.inspect_container(holder)["State"]["Pid"])
        link = network.join(namespace_of(holder, pid), note=_HOLDS.format(runtime=runtime))
    except BaseException:
        discard(engine, holder)
        raise
    known = oci_runtimes.networked(runtime, engine.runtimes())
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
