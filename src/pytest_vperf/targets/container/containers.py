"""Starting containers of a Docker engine, with any OCI runtime that is registered with it.

Engine, image and runtime are prepared before the start is timed (`pytest_vperf.targets.container.start`).
"""

from __future__ import annotations

import contextlib
import itertools
import shlex
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pytest_vperf.machine import cgroup_view
from pytest_vperf.machine.preflight import find_program
from pytest_vperf.targets.base import Command, Facts, TargetError, named
from pytest_vperf.targets.container import runtimes
from pytest_vperf.targets.container.address import answering
from pytest_vperf.targets.container.container import Container, Exec
from pytest_vperf.targets.container.limits import confined, read_back
from pytest_vperf.targets.container.start import attach, discard, running, timed_start
from pytest_vperf.targets.disks import attached
from pytest_vperf.targets.image.rootfs import LABEL_ROOTFS
from pytest_vperf.targets.least import STARTS, TOP, Least, search
from pytest_vperf.targets.limits import Limits, bytes_of
from pytest_vperf.targets.scope import Scope, Starter

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from pytest_vperf.machine.runs import Run
    from pytest_vperf.targets.container.engine import Engine
    from pytest_vperf.targets.control_group import MemoryGroup
    from pytest_vperf.targets.disks import CappedDisk, Disk
    from pytest_vperf.targets.image.rootfs import Rootfs
    from pytest_vperf.targets.network.switch import Switch


def facts_in_common(
    engine: Engine,
    runtime: str,
    image: str,
    identity: str,
    target: str,
    tree: Callable[[], Rootfs] | None,
    boot: Callable[[], str],
) -> dict[str, str]:
    """The facts that all containers of one runtime and image share; unknown ones are left out.

    Args:
        engine: runs them.
        runtime: by the engine's name for it.
        image: its ID.
        identity: of a running container, whose kernel's release is read.
        target: its name, for messages.
        tree: returns the files of the image.
        boot: returns the boot ID of the engine's kernel; empty if it is not known.
    """
    api: Any = engine.client.api
    labels = api.inspect_image(image)["Config"].get("Labels") or {}
    details = {
        "runtime": runtime,
        "runtime_version": engine.runtime_version(runtime),
        "engine_version": engine.version,
        "control_groups": (
            cgroup_view.HIDDEN if engine.private and runtimes.is_hidden(runtime) else ""
        ),
        "storage_driver": str(engine.info.get("Driver", "")),
        "image": image,
        "rootfs": tree().name if tree else "",
        "rootfs_sha256": labels.get(LABEL_ROOTFS, ""),
    }
    details["kernel"] = _printed(engine, identity, target, "uname", "-r")
    if not runtimes.has_no_machine(runtime):
        own = _printed(engine, identity, target, "cat", str(_BOOT))
        if own and (engines := boot()) and own != engines:
            details["machine"] = "one for each container"
    if engine.machine is not None:
        details |= engine.machine.details
    return {name: value for name, value in details.items() if value}


def _printed(engine: Engine, identity: str, target: str, *command: str) -> str:
    """What a command in a container prints; empty if it fails, or the image lacks it."""
    with contextlib.suppress(TargetError):
        asked = Exec(engine, identity, target).run(Command(command, timeout=10))
        return asked.text.strip() if asked.returncode == 0 else ""
    return ""


#: Identifies a kernel from its boot to its end: random(4).
_BOOT = Path("/proc/sys/kernel/random/boot_id")
_numbers = itertools.count(1)


class Containers(Starter):
    """Starts containers of one runtime.

    Args:
        engine: returns the engine; called at the first start.
        run: the containers carry its label and name.
        scope: owns them.
        runtime: the OCI runtime, by the engine's name for it; in a gate what both sides are builds of.
        build: what is called instead; ``None``: what the engine knows by that name.
        beside: another runtime that it is compared with, see `runtimes.beside`.
        rootfs: returns the image's ID in an engine, see `pytest_vperf.targets.image.rootfs`.
        tree: returns the files of that image, in which programs are looked up.
        mark: the suffix of their names if the engine is on another machine.
        parent: the parent of their control groups; empty for the engine's default.
    """

    def __init__(
        self,
        engine: Callable[[], Engine],
        run: Run,
        scope: Scope,
        *,
        runtime: str = "runc",
        build: runtimes.Build | None = None,
        beside: str = "",
        rootfs: Callable[[Engine], str],
        tree: Callable[[], Rootfs] | None = None,
        mark: str = "",
        parent: str = "",
    ) -> None:
        self.runtime = runtime
        self._build = build
        self._beside = beside
        self._parent = parent
        self.name = f"container {runtime}{mark}"
        self._mark = mark
        self._engine = engine
        self._run = run
        self._scope = scope
        self._rootfs = rootfs
        self._tree = tree
        self._common: dict[str, str] = {}

    @property
    def engine(self) -> Engine:
        """The engine; found or started on first use.

        Raises:
            Unavailable: there is none.
            CannotConnect: it does not answer.
        """
        with named(self.name):
            return self._engine()

    @property
    def kind(self) -> str:
        """``pod`` if the runtime starts a machine for each container, as Kata Containers does; else ``container``.

        Where the runtime is not known by name, one is started to see.

        Raises: as `start`.
        """
        with named(self.name):
            engine = self._engine()
            if runtimes.has_no_machine(self._called(engine)):
                return "container"
        if not self._common:
            with self.start():
                pass
        return self._kind

    @property
    def _kind(self) -> str:
        return "pod" if "machine" in self._common else "container"

    def of(self, *, runtime: str) -> Containers:
        """Containers like these with another OCI runtime, for tests that compare two.

        Args:
            runtime: a name that the engine knows, or a path, either of them with arguments:
                ``"./build/runsc --platform=systrap"``. A path is registered with the run's private engine.

        Raises:
            ValueError: it is not a command line, or the path is no program.
        """
        words = shlex.split(runtime)
        if not words:
            raise ValueError("the runtime has no name")
        found, build = find_program(words[0]), None
        if len(words) > 1 or "/" in words[0]:
            if found is None:
                raise ValueError(f"the runtime {words[0]} is no program")
            path = str(Path(found).absolute())
            build = runtimes.Build.of(shlex.join((path, *words[1:])), self.runtime)
        return self._like(
            runtime=Path(words[0]).name,
            name=f"container {runtime}{self._mark}",
            _build=build,
            _common={},
        )

    def sharing(self, group: MemoryGroup | None, scope: Scope) -> Containers:
        """Containers like these in one shared control group, owned by another scope.

        Args:
            group: the parent of their control groups; ``None`` for the engine's default.
            scope: owns them.
        """
        return self._like(_scope=scope, _parent=group.path if group is not None else "")

    def start(
        self,
        command: Sequence[str] = ("sleep", "infinity"),
        *,
        cpus: float | None = None,
        cpuset: str | None = None,
        cpu_shares: int | None = None,
        memory: int | str | None = None,
        pids: int | None = None,
        disks: Sequence[Disk | CappedDisk] = (),
        network: str | Switch = "none",
    ) -> Container:
        """Start a container and time it.

        Args:
            command: of its first process.
            cpus: CPU time it may use, in CPUs, e.g. 0.5.
            cpuset: the CPUs it may run on, e.g. ``0-1``.
            cpu_shares: its weight against other containers; the default is 1024.
            memory: its limit, without swap: bytes, or e.g. ``200 MiB``.
            pids: its limit of processes and threads; ``None`` for 4096, if its runtime counts them.
            disks: from the fixture ``disks``: a raw one is passed through as a device, a formatted one is
                bind-mounted, both at `Disk.where`; ``disk.capped(…)`` limits their rates.
            network: one of the engine's by name, where ``none`` has no interface; or the run's own (fixture
                ``network``).

        Raises:
            Unavailable: there is no engine here, or it does not know the runtime, or the runtime does not enforce a
                limit.
            CannotStart: the runtime refused, or the process ended at once, with the output; or a limit is not as
                requested.
            CannotConnect: the engine does not answer.
        """
        with named(self.name):
            engine = self._engine()
            runtime = self._called(engine)
            engine.require_runtime(runtime)
        present, caps = attached(disks)
        limits = Limits(cpus, cpuset, cpu_shares, bytes_of(memory), caps, pids)
        api: Any = engine.client.api
        with answering(engine.url, target=self.name), contextlib.ExitStack() as undo:
            with named(self.name):
                image = self._rootfs(engine)
                plug = attach(network, runtime, engine, image, self._run, self.name)
            undo.callback(plug.abandon, engine)
            options = api.create_host_config(
                network_mode=plug.mode,
                runtime=plug.runtime,
                devices=[
                    f"{disk.device}:{disk.inside}:rwm" for disk in present if not disk.formatted
                ],
                binds=[f"{disk.mounted()}:{disk.inside}" for disk in present if disk.formatted],
                **({"cgroup_parent": self._parent} if self._parent else {}),
                **confined(limits),
            )
            request = api.create_container_config(
                image,
                list(command),
                labels=self._run.labels,
                # A container's first process ignores SIGTERM by default: an engine that shuts down would wait for it
                # in vain.
                stop_signal="SIGKILL",
                host_config=options,
            )
            api.ping()  # opens the connection
            name = f"vperf-{self._run.id}-{next(_numbers)}"
            identity, startup = timed_start(engine, request, name, self.name)
            undo.callback(discard, engine, identity)
            state = running(engine, identity, self.name)
            facts = self._facts(engine, runtime, image, identity, state, limits)
            with named(self.name):
                link = plug.complete(identity, int(state["State"]["Pid"]))
            container = Container(
                engine,
                identity,
                state,
                name=self.name,
                startup_time=startup,
                facts=facts,
                shares_files=runtimes.shares_files(runtime),
                link=link,
                holder=plug.holder,
                disks=present,
                tree=self._tree,
            )
            undo.callback(container.close)  # and its link, if that was made after the start
            container.check_devices()
            undo.pop_all()
        return self._scope.own(container)

    def least_memory(self, *, top: str = TOP, step: str = "", starts: int = STARTS) -> Least:
        """Search for the least memory limit with which a container starts, and still runs.

        Args:
            top: a limit with which it starts.
            step: between the sizes that are tried, e.g. ``64 KiB``; empty for eight to an octave.
            starts: how often a size must work.

        Raises: as `pytest_vperf.targets.least.search`.
        """
        tried = self._like(_scope=Scope())
        least = search(
            lambda size: tried.start(memory=size).close(),
            target=self.name,
            top=top,
            step=step,
            starts=starts,
        )
        self.start(memory=f"{least.memory.value:g} KiB")  # for the record
        return least

    def _called(self, engine: Engine) -> str:
        """The engine's name of the runtime that is called."""
        name = engine.know(self._build) if self._build is not None else self.runtime
        return runtimes.beside(name, self._beside)

    def _facts(
        self,
        engine: Engine,
        runtime: str,
        image: str,
        identity: str,
        state: Mapping[str, Any],
        limits: Limits,
    ) -> Facts:
        if self._common.get("image") != image:
            self._common = facts_in_common(
                engine, runtime, image, identity, self.name, self._tree, lambda: self._boot(engine)
            )
        pid = int(state["State"]["Pid"])
        limited = read_back(limits, pid, identity, self.name, engine.read)
        return Facts(self._kind, self.name, {**self._common, **limited})

    def _boot(self, engine: Engine) -> str:
        """The boot ID of the engine's kernel; empty if it is not known.

        Of an engine that somebody else started, a container is asked: its socket may lead to another machine.
        """
        if engine.private or engine.machine is not None:
            with contextlib.suppress(OSError):
                return engine.read(_BOOT).strip()
            return ""
        beside = self._like(
            runtime="runc", _build=None, _beside="", _parent="", _scope=Scope(), _common={}
        )
        with contextlib.suppress(TargetError), beside.start() as plain:
            return plain.run(["cat", str(_BOOT)]).text.strip()
        return ""
