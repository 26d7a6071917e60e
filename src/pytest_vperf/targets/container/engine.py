"""The Docker engine that containers run in: an existing one, else a private one.

If ``DOCKER_HOST`` is set, only that engine is used, even if it does not answer. Else the installed engine's socket is
tried, then the user's own (rootless); else root starts a private engine. In an existing engine, containers left by
dead runs are recognised by their labels and removed.
"""

from __future__ import annotations

import contextlib
import errno
import getpass
import json
import os
import time
from concurrent.futures import ThreadPoolExecutor
from functools import cached_property, partial
from typing import TYPE_CHECKING, Any

from pytest_vperf.machine.leftovers import Leftover
from pytest_vperf.machine.preflight import Readiness, find_program
from pytest_vperf.machine.procfile import text
from pytest_vperf.machine.runs import LABEL_PLACE, LABEL_RUN, dead_run, place
from pytest_vperf.targets.base import CannotConnect, CannotStart, Unavailable
from pytest_vperf.targets.container import runtimes as oci_runtimes
from pytest_vperf.targets.container.address import answering, connect, default_sockets, knock
from pytest_vperf.targets.container.private_engine import PrivateEngine
from pytest_vperf.targets.remote.connection import FORWARDING

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from pathlib import Path

    from docker import DockerClient

    from pytest_vperf.machine.runs import Run
    from pytest_vperf.targets.container.runtimes import Build
    from pytest_vperf.targets.remote.machine import RemoteMachine


def find_leftovers(client: DockerClient, url: str) -> list[Leftover]:
    """The containers in an engine that dead runs of this machine and user left.

    Args:
        client: the engine's client.
        url: its address, for messages.

    Raises:
        CannotConnect: the engine does not answer.
    """
    api: Any = client.api
    with answering(url):
        ours = api.containers(all=True, filters={"label": f"{LABEL_PLACE}={place()}"})
    found = []
    for container in ours:
        run = dead_run(container["Labels"])
        if run:
            name = (container["Names"] or [container["Id"][:12]])[0].lstrip("/")
            take_away = partial(_remove, client, url, container["Id"])
            found.append(Leftover(run, "container", f"container {name}", take_away))
    return found


def _remove(client: DockerClient, url: str, container: str) -> str:
    from docker.errors import APIError, NotFound

    api: Any = client.api
    try:
        with answering(url):
            api.remove_container(container, force=True, v=True)
    except NotFound:
        return ""
    except (APIError, CannotConnect) as error:
        return str(error)
    return ""


def engines_in_reach() -> list[Leftover]:
    """`find_leftovers` in the engine that answers, if any; starts none.

    Raises:
        CannotConnect: ``DOCKER_HOST`` names an engine that does not answer.
        Unavailable: this user may not use the engine.
    """

    reached = answering_engine()
    return find_leftovers(*reached) if reached is not None else []


_INSTALL = "apt-get install docker.io"
#: Seconds in which a private engine reads its configuration again.
_RELOADED = 10.0


class Engine:
    """A Docker engine that answers; made by `Engine.connect`, ended with `close`.

    Attributes:
        client: the SDK's client, with a time limit on every request.
        url: its address.
        private: whether this run started it, for itself alone.
        machine: the other machine that it is on; ``None`` for this one, or if only its address is known.
    """

    def __init__(
        self,
        client: DockerClient,
        url: str,
        run: Run | None = None,
        own: PrivateEngine | None = None,
        machine: RemoteMachine | None = None,
    ) -> None:
        self.client = client
        self.url = url
        self.machine = machine
        self.private = own is not None
        self._run = run
        self._own = own

    @classmethod
    def connect(cls, run: Run, builds: Sequence[Build] = (), address: str = "") -> Engine:
        """Find an engine, or start a private one; remove what dead runs left in an existing one.

        Args:
            run: owns what is started in it.
            builds: runtimes that will be asked for: if the existing engine does not know them, and ``DOCKER_HOST``
                does not insist on it, a private one is started, since the existing one's configuration is not ours.
            address: the existing one's; empty to look for one.

        Raises:
            CannotConnect: ``DOCKER_HOST`` names an engine that does not answer.
            Unavailable: no engine answers, and none can be started by this user.
            CannotStart: a private engine did not start.
        """
        found = (connect(address), address) if address else answering_engine()
        if found is not None:
            engine = cls(*found, run)
            named = address or os.environ.get("DOCKER_HOST")
            if (
                named
                or _why_no_private_engine() is not None
                or all(engine.name_of(build) for build in builds)
            ):
                remove_leftovers(*found)
                return engine
            engine.client.close()
        if (lack := _why_no_private_engine()) is not None:
            raise lack
        own = PrivateEngine.start(run)
        try:
            return cls(connect(own.url), own.url, run, own)
        except BaseException:
            own.stop()
            raise

    @cached_property
    def info(self) -> Mapping[str, Any]:
        """The engine's description of itself (``GET /info``), requested once.

        Raises:
            CannotConnect: it does not answer any more.
        """
        with answering(self.url):
            said: Mapping[str, Any] = self.client.info()
        return said

    @property
    def version(self) -> str:
        """The engine's version, e.g. ``20.10.24``."""
        return str(self.info["ServerVersion"])

    @property
    def description(self) -> str:
        """One line: version, address, storage driver, control groups, and whether it is private."""
        said = self.info
        return (
            f"Docker Engine {self.version} at {self.url}, {said.get('Driver', '?')},"
            f" cgroup v{said.get('CgroupVersion', '1')} ({said.get('CgroupDriver', '?')})"
            + (", private to this run" if self.private else "")
        )

    def runtimes(self) -> Mapping[str, str]:
        """The OCI runtimes that the engine knows: name → path, or type if it has no path."""
        known = self.info.get("Runtimes") or {}
        return {
            name: str(entry.get("path") or entry.get("runtimeType") or name)
            for name, entry in sorted(known.items())
            if not name.startswith("io.containerd.")
        }

    def runtime_version(self, name: str) -> str:
        """The first line of a runtime's ``--version``; empty if it fails."""
        path = self.runtimes().get(name, "")
        if self.machine is None:
            return oci_runtimes.version(path)
        done = self.machine.ssh.run([path or name, "--version"], check=False, timeout=20.0)
        return "" if done.returncode else oci_runtimes.first_line(done.text)

    def read(self, path: Path) -> str:
        """The text of a small file on the engine's machine.

        Raises:
            OSError: it cannot be read.
            CannotConnect: the machine is gone.
        """
        return text(path) if self.machine is None else self.machine.read(path)

    def require_runtime(self, name: str) -> None:
        """Make sure that the engine knows a runtime; whether it works only a start shows.

        Raises:
            Unavailable: it does not; lists the known ones.
        """
        if self.machine is not None:
            self.machine.check()
        if name in self.runtimes() or name.startswith("io.containerd."):
            return
        raise Unavailable(
            f"the Docker engine at {self.url} knows no runtime {name}; it knows "
            + ", ".join(self.runtimes()),
            remedy=self._runtime_remedy(name),
            target=f"container {name}",
        )

    def name_of(self, build: Build) -> str:
        """The engine's name of a runtime that it knows by its path and arguments; empty if it does not."""
        known: Mapping[str, Mapping[str, Any]] = self.info.get("Runtimes") or {}
        for name, entry in known.items():
            words = (entry.get("path", ""), *(entry.get("runtimeArgs") or ()))
            if words == (build.path, *build.arguments):
                return name
        return ""

    def know(self, build: Build) -> str:
        """Make sure that the engine knows a runtime by its path, and tell the engine's name for it.

        Raises:
            Unavailable: it does not, and its configuration is not ours.
            CannotStart: a private engine did not take it over in time.
        """
        if self._own is None:
            if self.machine is None and (name := self.name_of(build)):
                return name
            entry = json.dumps({"path": build.path, "runtimeArgs": list(build.arguments)})
            raise Unavailable(
                f"the Docker engine at {self.url} does not know the runtime {build}",
                remedy=f'add {json.dumps(build.kind + "-build")}: {entry} to "runtimes" in /etc/docker/daemon.json '
                "and reload the engine",
            )
        if build.name not in self.runtimes():
            self._own.register(build)
            deadline = time.monotonic() + _RELOADED
            while build.name not in self.runtimes():
                if time.monotonic() > deadline:
                    raise CannotStart(
                        f"the private Docker engine did not take over the runtime {build} within {_RELOADED:g} s"
                    )
                time.sleep(0.02)
                self.__dict__.pop("info", None)  # what it said before
        return build.name

    def _runtime_remedy(self, name: str) -> str:
        if name not in oci_runtimes.installed():
            return oci_runtimes.remedy(name)
        return f'add it to "runtimes" in /etc/docker/daemon.json and reload the engine ({name} is installed)'

    @property
    def has_ended(self) -> bool:
        """Whether it is private and has died; another engine may be restarted by its owner."""
        return self._own is not None and self._own.has_ended

    def close(self) -> None:
        """Remove this run's containers, and stop the engine if it is private. Safe to repeat.

        Raises:
            TargetError: a private engine left something behind; says what.
        """
        with contextlib.suppress(CannotConnect), answering(self.url):
            self._remove_containers()
        self.client.close()
        if self._own is not None:
            own, self._own = self._own, None
            own.stop()

    def _remove_containers(self) -> None:
        """Remove all of this run's containers, including any whose creation was interrupted before we had its ID."""
        if self._run is None:
            return
        api: Any = self.client.api
        wanted = {"label": f"{LABEL_RUN}={self._run.id}"}
        _remove_all(api, api.containers(all=True, filters=wanted))

    def __enter__(self) -> Engine:
        return self

    def __exit__(self, *exception: object) -> None:
        self.close()


def answering_engine() -> tuple[DockerClient, str] | None:
    """A client of the existing engine, and its address; ``None`` if there is none.

    Raises:
        CannotConnect: ``DOCKER_HOST`` names an engine that does not answer.
        Unavailable: there is one, but this user may not use it.
    """
    if named := os.environ.get("DOCKER_HOST"):
        return connect(), named
    refused: Path | None = None
    for path in default_sockets():
        problem = knock(path)
        if problem is None:
            with contextlib.suppress(CannotConnect):
                return connect(f"unix://{path}"), f"unix://{path}"
        elif problem.errno == errno.EACCES:
            refused = refused or path
    if refused is not None:
        raise Unavailable(
            f"this user may not use the Docker engine at unix://{refused}: permission denied",
            remedy=f"sudo usermod -aG docker {_user()}, then log in again",
            target="container",
        )
    return None


def remove_leftovers(client: DockerClient, url: str) -> None:
    """Remove the containers of this machine's and user's dead runs, since nobody else does.

    Errors are ignored: what cannot be removed is left to the next run.
    """
    from docker.errors import DockerException

    from pytest_vperf.machine import leftovers

    with contextlib.suppress(CannotConnect, DockerException, OSError):
        leftovers.remove(find_leftovers(client, url))


def _user() -> str:
    try:
        return getpass.getuser()
    except (KeyError, OSError):  # no user name, as in many containers
        return str(os.getuid())


def _why_no_private_engine() -> Unavailable | None:
    """Why no private engine can be started; ``None`` if it can be tried."""
    if find_program("dockerd") is None:
        return Unavailable(
            "no Docker engine answers, and dockerd is not installed",
            remedy=_INSTALL,
            target="container",
        )
    if os.geteuid() != 0:
        return Unavailable(
            "no Docker engine answers, and only root can start a private one",
            remedy="sudo systemctl start docker",
            target="container",
        )
    return None


def check(runtimes: Sequence[str] = ("runc",)) -> list[Readiness]:
    """The lines of ``vperf doctor`` for the engine, then each runtime. Starts nothing."""
    try:
        found = answering_engine()
        lack = _why_no_private_engine() if found is None else None
    except Unavailable as error:
        found, lack = None, error
    except CannotConnect as error:
        found, lack = (
            None,
            Unavailable(str(error), remedy="start that engine, or unset DOCKER_HOST"),
        )
    if lack is not None:
        return [Readiness("container", False, lack.reason, lack.remedy)] + [
            Readiness(f"container {name}", False, "no engine to run it", lack.remedy)
            for name in runtimes
        ]
    if found is None:
        why = "no engine answers; a private dockerd will be started"
        return [Readiness("container", True, why), *map(_installed_runtime, runtimes)]
    with Engine(*found) as engine:
        return [
            Readiness("container", True, engine.description),
            *(_known_runtime(engine, name) for name in runtimes),
        ]


def _installed_runtime(name: str) -> Readiness:
    path = oci_runtimes.installed().get(name)
    if path is None:
        known = name in oci_runtimes.ARGUMENTS
        why = f"{name} is not installed" if known else f"{name} is not a runtime known here"
        return Readiness(f"container {name}", False, why, oci_runtimes.remedy(name))
    return Readiness(f"container {name}", True, oci_runtimes.version(path) or path)


def _known_runtime(engine: Engine, name: str) -> Readiness:
    try:
        engine.require_runtime(name)
    except Unavailable as error:
        return Readiness(f"container {name}", False, error.reason, error.remedy)
    path = engine.runtimes().get(name, name)
    return Readiness(f"container {name}", True, oci_runtimes.version(path) or path)


#: How many containers are removed at a time: each removal mostly waits for the engine.
_AT_ONCE = 8


def _remove_all(api: Any, containers: Sequence[Mapping[str, Any]]) -> None:
    """Remove containers, several at a time: a test that fills a host may have left hundreds.

    Args:
        api: the engine's.
        containers: as the engine lists them.

    Raises:
        the SDK's errors if the engine does not answer; the remaining removals are then dropped.
    """
    from docker.errors import APIError

    def remove(container: Mapping[str, Any]) -> None:
        with contextlib.suppress(APIError):  # already gone
            api.remove_container(container["Id"], force=True, v=True)

    pool = ThreadPoolExecutor(_AT_ONCE, thread_name_prefix="engine-end")
    try:
        for _ in pool.map(remove, containers):
            pass
    finally:
        pool.shutdown(cancel_futures=True)


# The engine of another machine: its socket is forwarded here by SSH, so that no Docker is needed here.

#: The sockets there: the one in DOCKER_HOST, else the system's and the user's own (rootless).
_FIND_THERE = """
own=${XDG_RUNTIME_DIR:-/run/user/$(id -u)}/docker.sock
case ${DOCKER_HOST:-} in
  "") set -- /var/run/docker.sock "$own" ;;
  unix://*) set -- "${DOCKER_HOST#unix://}" ;;
  *) echo "named $DOCKER_HOST"; exit ;;
esac
for socket; do [ -S "$socket" ] && [ -w "$socket" ] && echo "usable $socket" && exit; done
for socket; do [ -S "$socket" ] && echo "refused $socket" && exit; done
echo "none $*"
"""


def connect_there(machine: RemoteMachine, run: Run) -> Engine:
    """Connect to the existing engine there and remove what dead runs left in it. None is started there.

    Raises:
        Unavailable: there is none, or the user may not use it; with a remedy.
        CannotConnect: it does not answer, or the machine is gone.
    """
    where = machine.address.where
    state, _, socket = machine.ssh.run(["sh", "-c", _FIND_THERE]).text.strip().partition(" ")
    if state == "named":
        raise Unavailable(
            f"DOCKER_HOST on {where} names {socket}: only a Unix socket can be forwarded",
            remedy="set it to unix://…, there",
            target="container",
        )
    if state == "none":
        raise Unavailable(
            f"no Docker engine listens on {where} ({socket.replace(' ', ', ')})",
            remedy="apt-get install docker.io && systemctl start docker, there",
            target="container",
        )
    if state == "refused":
        raise Unavailable(
            f"this user may not use the Docker engine of {where} at unix://{socket}: permission denied",
            remedy="sudo usermod -aG docker $USER, there; or name another user: --vperf-on=ssh://USER@HOST",
            target="container",
        )
    here = run.subfolder("engine") / "docker.sock"
    machine.ssh.connection.forward(here, socket)
    url = machine.address.url
    try:
        client = connect(f"unix://{here}")
    except CannotConnect as error:
        said = str(error).partition("does not answer: ")[2]
        raise CannotConnect(
            f"the Docker engine of {where} at unix://{socket} does not answer: {said} ({FORWARDING})"
        ) from None
    remove_leftovers(client, url)
    return Engine(client, url, run, machine=machine)
