"""The Docker engine that containers run in: the one that answers, else one of our own.

``DOCKER_HOST`` is obeyed where it is set; no other engine is taken instead, however little it answers. Else
the installed engine's socket, else the user's own (rootless), else, for root, a private engine.

What dead runs left in an engine that is not theirs: containers, known by their labels.
"""

from __future__ import annotations

import contextlib
import errno
import getpass
import os
from concurrent.futures import ThreadPoolExecutor
from functools import cached_property, partial
from typing import TYPE_CHECKING, Any

from pytest_vperf.machine.leftovers import Leftover
from pytest_vperf.machine.preflight import Readiness, find_program
from pytest_vperf.machine.procfile import text
from pytest_vperf.machine.runs import LABEL_PLACE, LABEL_RUN, dead_run, place
from pytest_vperf.targets.base import CannotConnect, Unavailable
from pytest_vperf.targets.container import runtimes as oci_runtimes
from pytest_vperf.targets.container.address import answering, connect, default_sockets, knock
from pytest_vperf.targets.container.private_engine import PrivateEngine
from pytest_vperf.targets.remote.connection import FORWARDING

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from pathlib import Path

    from docker import DockerClient

    from pytest_vperf.machine.runs import Run
    from pytest_vperf.targets.remote.machine import RemoteMachine


def find_leftovers(client: DockerClient, url: str) -> list[Leftover]:
    """The containers of this machine's and user's dead runs in an engine.

    Args:
        client: the engine's client.
        url: where it is, for messages.

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
    """`find_leftovers` in the engine that answers, if one does; nothing is started for it.

    Raises:
        CannotConnect: ``DOCKER_HOST`` names an engine that does not answer.
        Unavailable: this user may not use the engine.
    """

    reached = answering_engine()
    return find_leftovers(*reached) if reached is not None else []


_INSTALL = "apt-get install docker.io"


class Engine:
    """A Docker engine that answers. Made with `Engine.connect`, ended with `close`.

    Attributes:
        client: the SDK's client, with a time limit on every request.
        url: where it is.
        private: whether it was started by us, for this run alone.
        machine: the other machine that it is on; ``None`` where it is this one, or only its address is known.
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
    def connect(cls, run: Run) -> Engine:
        """Find an engine, or start one; in one that is not ours, remove what dead runs left there.

        Raises:
            CannotConnect: ``DOCKER_HOST`` names an engine that does not answer.
            Unavailable: no engine answers, and none can be started by this user.
            CannotStart: a private engine was tried and did not start.
        """
        found = answering_engine()
        if found is not None:
            client, url = found
            remove_leftovers(client, url)
            return cls(client, url, run)
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
        """What the engine says of itself, asked once (``GET /info``).

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
        """One line: version, storage driver, control groups, and whose it is."""
        said = self.info
        return (
            f"Docker Engine {self.version} at {self.url}, {said.get('Driver', '?')},"
            f" cgroup v{said.get('CgroupVersion', '1')} ({said.get('CgroupDriver', '?')})"
            + (", private to this run" if self.private else "")
        )

    def runtimes(self) -> Mapping[str, str]:
        """The OCI runtimes the engine knows by name: name → path, or type where it has no path."""
        known = self.info.get("Runtimes") or {}
        return {
            name: str(entry.get("path") or entry.get("runtimeType") or name)
            for name, entry in sorted(known.items())
            if not name.startswith("io.containerd.")
        }

    def runtime_version(self, name: str) -> str:
        """What a runtime says of its version; empty where it says nothing."""
        path = self.runtimes().get(name, "")
        if self.machine is None:
            return oci_runtimes.version(path)
        done = self.machine.ssh.run([path or name, "--version"], check=False, timeout=20.0)
        return "" if done.returncode else oci_runtimes.first_line(done.text)

    def read(self, path: Path) -> str:
        """The text of a small file of the engine's machine.

        Raises:
            OSError: it cannot be read.
            CannotConnect: the machine is gone.
        """
        return text(path) if self.machine is None else self.machine.read(path)

    def require_runtime(self, name: str) -> None:
        """Make sure that the engine knows a runtime; whether it starts is seen when it is started.

        Raises:
            Unavailable: it does not; the known ones are listed.
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

    def _runtime_remedy(self, name: str) -> str:
        if name not in oci_runtimes.installed():
            return oci_runtimes.remedy(name)
        return f'add it to "runtimes" in /etc/docker/daemon.json and reload the engine ({name} is installed)'

    @property
    def has_ended(self) -> bool:
        """Whether it is private and has died; an engine of others may come back by itself."""
        return self._own is not None and self._own.has_ended

    def close(self) -> None:
        """Remove this run's containers, and stop the engine if it is private. Safe to repeat.

        Raises:
            TargetError: a private engine left something behind; it says what.
        """
        with contextlib.suppress(CannotConnect), answering(self.url):
            self._remove_containers()
        self.client.close()
        if self._own is not None:
            own, self._own = self._own, None
            own.stop()

    def _remove_containers(self) -> None:
        """Whatever this run still has: also one whose making was interrupted before it was known."""
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
    """A client of the engine that is there, and where it is; ``None`` where none is.

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
    """Remove the containers of this machine's and user's dead runs; nobody else does, once they are dead.

    What cannot be removed is left to the next time: it is no reason not to run.
    """
    from docker.errors import DockerException

    from pytest_vperf.machine import leftovers

    with contextlib.suppress(CannotConnect, DockerException, OSError):
        leftovers.remove(find_leftovers(client, url))


def _user() -> str:
    try:
        return getpass.getuser()
    except (KeyError, OSError):  # a user without a name, as in many containers
        return str(os.getuid())


def _why_no_private_engine() -> Unavailable | None:
    """What stands against starting an engine of our own; nothing if it can be tried."""
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
    """What ``vperf doctor`` says of containers: the engine, then each runtime. Starts nothing."""
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


#: How many containers are removed at a time: the engine has the work, and each of them waits.
_AT_ONCE = 8


def _remove_all(api: Any, containers: Sequence[Mapping[str, Any]]) -> None:
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


# The engine of another machine: its socket, brought here by SSH. Nothing of Docker's is needed here.

#: What the machine's own environment names, the system's, and the user's own (rootless).
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
    """The engine that answers there; what dead runs left in it is removed. None is started there.

    Raises:
        Unavailable: there is none, or the user may not use it; says what mends it.
        CannotConnect: there is one, and it does not answer; or the machine is gone.
    """
    where = machine.address.where
    state, _, socket = machine.ssh.run(["sh", "-c", _FIND_THERE]).text.strip().partition(" ")
    if state == "named":
        raise Unavailable(
            f"DOCKER_HOST on {where} names {socket}: only a Unix socket can be brought here",
            remedy="name it unix://…, there",
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
