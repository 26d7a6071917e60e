"""The Docker engine of another machine: its socket, brought here by SSH. Nothing of Docker's is needed here."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pytest_vperf.targets.base import CannotConnect, Unavailable
from pytest_vperf.targets.engine import Engine, remove_leftovers
from pytest_vperf.targets.engine_address import connect as connect_socket

if TYPE_CHECKING:
    from pytest_vperf.machine.runs import Run
    from pytest_vperf.targets.remote.machine import RemoteMachine

#: What the machine's own environment names, the system's, and the user's own (rootless).
_FIND = """
own=${XDG_RUNTIME_DIR:-/run/user/$(id -u)}/docker.sock
for socket in "${DOCKER_HOST#unix://}" /var/run/docker.sock "$own"; do
  [ -S "$socket" ] || continue
  echo "$socket"; [ ! -w "$socket" ] || echo usable
  exit 0
done
"""


def connect(machine: RemoteMachine, run: Run) -> Engine:
    """The engine that answers there; what dead runs left in it is removed. None is started there.

    Raises:
        Unavailable: there is none, or the user may not use it; says what mends it.
        CannotConnect: there is one, and it does not answer; or the machine is gone.
    """
    where = machine.address.where
    found = machine.ssh.run(["sh", "-c", _FIND]).text.split()
    if not found:
        raise Unavailable(
            f"no Docker engine listens on {where}",
            remedy="apt-get install docker.io && systemctl start docker, there",
            target="container",
        )
    if "usable" not in found:
        raise Unavailable(
            f"this user may not use the Docker engine of {where} at unix://{found[0]}: permission denied",
            remedy="sudo usermod -aG docker $USER, there; or name another user: --on=ssh://USER@HOST",
            target="container",
        )
    here = run.subfolder("engine") / "docker.sock"
    machine.ssh.connection.forward(here, found[0])
    url = machine.address.url
    try:
        client = connect_socket(f"unix://{here}")
    except CannotConnect as error:
        said = str(error).partition("does not answer: ")[2]
        raise CannotConnect(
            f"the Docker engine of {where} at unix://{found[0]} does not answer: {said}"
        ) from None
    remove_leftovers(client, url)
    return Engine(client, url, run, machine=machine)
