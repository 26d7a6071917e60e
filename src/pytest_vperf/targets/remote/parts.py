"""The Docker engine of another machine: its socket, brought here by SSH. Nothing of Docker's is needed here."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pytest_vperf.targets.base import CannotConnect, Unavailable
from pytest_vperf.targets.engine import Engine, remove_leftovers
from pytest_vperf.targets.engine_address import connect as connect_socket
from pytest_vperf.targets.ssh_connection import FORWARDING

if TYPE_CHECKING:
    from pytest_vperf.machine.runs import Run
    from pytest_vperf.targets.remote.machine import RemoteMachine

#: What the machine's own environment names, the system's, and the user's own (rootless).
_FIND = """
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


def connect(machine: RemoteMachine, run: Run) -> Engine:
    """The engine that answers there; what dead runs left in it is removed. None is started there.

    Raises:
        Unavailable: there is none, or the user may not use it; says what mends it.
        CannotConnect: there is one, and it does not answer; or the machine is gone.
    """
    where = machine.address.where
    state, _, socket = machine.ssh.run(["sh", "-c", _FIND]).text.strip().partition(" ")
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
            remedy="sudo usermod -aG docker $USER, there; or name another user: --on=ssh://USER@HOST",
            target="container",
        )
    here = run.subfolder("engine") / "docker.sock"
    machine.ssh.connection.forward(here, socket)
    url = machine.address.url
    try:
        client = connect_socket(f"unix://{here}")
    except CannotConnect as error:
        said = str(error).partition("does not answer: ")[2]
        raise CannotConnect(
            f"the Docker engine of {where} at unix://{socket} does not answer: {said} ({FORWARDING})"
        ) from None
    remove_leftovers(client, url)
    return Engine(client, url, run, machine=machine)
