"""The Docker engine of another machine: its socket, brought here by SSH. Nothing of Docker's is needed here."""

from __future__ import annotations

import itertools
from typing import TYPE_CHECKING

from pytest_vperf.targets.base import CannotConnect, Unavailable
from pytest_vperf.targets.container.address import connect as connect_socket
from pytest_vperf.targets.container.engine import Engine, remove_leftovers
from pytest_vperf.targets.libvirt import connect as libvirt_connect
from pytest_vperf.targets.pod.disk import build_disk
from pytest_vperf.targets.remote.address import libvirt_uri
from pytest_vperf.targets.remote.connection import FORWARDING
from pytest_vperf.targets.remote.ssh import ImageHost, SshHost

if TYPE_CHECKING:
    from collections.abc import Callable

    from pytest_vperf.machine.runs import Run
    from pytest_vperf.targets.image.rootfs import Rootfs
    from pytest_vperf.targets.libvirt.daemon import Daemon
    from pytest_vperf.targets.remote.machine import RemoteMachine


# Another machine itself as a target, with the programs of the image that containers and pods on it have.

_numbers = itertools.count(1)


def host_of(machine: RemoteMachine, run: Run, rootfs: Callable[[], Rootfs] | None) -> SshHost:
    """The machine as the host of what runs on it; ended by the caller, which leaves the machine's connection open.

    Args:
        machine: the machine.
        run: owns what is mounted there.
        rootfs: gives the image; called when its first program is wanted. ``None``: it runs its own programs.
    """
    name, shared = f"host{machine.mark}", machine.ssh.connection
    if rootfs is None:
        return SshHost(
            machine.address.url, run, name=name, connection=shared, details=machine.details
        )

    def disk(image: Rootfs) -> str:
        return machine.sent.keep(build_disk(image.path, image.sha256), "image")

    return ImageHost(
        machine.address.url,
        run,
        rootfs=rootfs,
        disk=disk,
        name=name,
        details=machine.details,
        connection=shared,
        folder=machine.folder,
    )


# The libvirt daemon of another machine, for its whole machines.

#: Where a system's daemons listen (libvirt.org/daemons.html): the one for all drivers, and that for one driver alone.
_SOCKETS = {
    "qemu": ("/run/libvirt/libvirt-sock", "/run/libvirt/virtqemud-sock"),
    "xen": ("/run/libvirt/libvirt-sock", "/run/libvirt/virtxend-sock"),
}
_LISTENS = 'for s; do [ -S "$s" ] && exit 0; done; exit 1'


def daemon_of(machine: RemoteMachine, driver: str, run: Run) -> Daemon:
    """The daemon there.

    Args:
        machine: the machine.
        driver: ``qemu`` or ``xen``.
        run: whose machines are started.

    Raises:
        Unavailable: the machine has none, or is no host of Xen's machines.
        CannotConnect: it does not answer.
    """
    where = machine.address.where
    if driver == "xen" and not libvirt_connect.is_dom0(machine.read):
        raise Unavailable(
            f"{where} is no Xen host (no control_d in /proc/xen/capabilities)",
            remedy="--vperf-on=lab:xen, which starts one inside QEMU",
        )
    if machine.ssh.run(["sh", "-c", _LISTENS, "sh", *_SOCKETS[driver]], check=False).returncode:
        raise Unavailable(
            f"no libvirt daemon listens on {where}",
            remedy="apt-get install libvirt-daemon-system && systemctl start libvirtd, there",
        )
    uri = libvirt_uri(machine.address.url, driver)
    return libvirt_connect.connect(uri, run, details=dict(machine.details))


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
            remedy="sudo usermod -aG docker $USER, there; or name another user: --vperf-on=ssh://USER@HOST",
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
