"""What ``vperf doctor`` says about domUs: whether this machine is a Xen host with libvirt. Nothing is started."""

from __future__ import annotations

from pytest_vperf.machine.preflight import Readiness
from pytest_vperf.targets.base import TargetError, Unavailable
from pytest_vperf.targets.xen.domus import need_mode

NAME = "domu"


def check() -> Readiness:
    """Whether domUs can be started on this machine."""
    from pytest_vperf.targets.libvirt import connect
    from pytest_vperf.targets.libvirt.connection import Connection

    try:
        connect.need_dom0()
        connection = Connection.open(connect.XEN)
        try:
            need_mode(connection, "pv")
            hypervisor = connection.versions()["hypervisor"]
        finally:
            connection.close()
    except Unavailable as error:
        return Readiness(NAME, False, error.reason, error.remedy)
    except TargetError as error:
        return Readiness(NAME, False, str(error), "start libvirtd, as root")
    return Readiness(NAME, True, f"{hypervisor}, libvirt answers")
