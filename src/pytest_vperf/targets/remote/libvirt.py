"""The libvirt daemon of another machine, for its whole machines."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pytest_vperf.targets.base import Unavailable
from pytest_vperf.targets.remote.address import libvirt_uri
from pytest_vperf.targets.virt import connect

if TYPE_CHECKING:
    from pytest_vperf.machine.runs import Run
    from pytest_vperf.targets.remote.machine import RemoteMachine
    from pytest_vperf.targets.virt.daemon import Daemon

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
    if driver == "xen" and not connect.is_dom0(machine.read):
        raise Unavailable(
            f"{where} is no Xen host (no control_d in /proc/xen/capabilities)",
            remedy="--on=lab:xen, which starts one inside QEMU",
        )
    if machine.ssh.run(["sh", "-c", _LISTENS, "sh", *_SOCKETS[driver]], check=False).returncode:
        raise Unavailable(
            f"no libvirt daemon listens on {where}",
            remedy="apt-get install libvirt-daemon-system && systemctl start libvirtd, there",
        )
    uri = libvirt_uri(machine.address.url, driver)
    return connect.connect(uri, run, details=dict(machine.details))
