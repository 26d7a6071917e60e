"""What a Xen host can do, and how its scheduler is told a machine's weight: through libvirt, read back."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pytest_vperf.targets.base import Unavailable
from pytest_vperf.targets.domu.config import MODES
from pytest_vperf.targets.domu.weight import cap_of, weight_of
from pytest_vperf.targets.virt.failures import failed
from pytest_vperf.targets.virt.metadata import described

if TYPE_CHECKING:
    from pytest_vperf.targets.limits import Limits
    from pytest_vperf.targets.virt.connection import Connection
    from pytest_vperf.targets.virt.domain import Domain


def need_mode(connection: Connection, mode: str) -> None:
    """Make sure that the host has machines of a mode.

    Raises:
        Unavailable: it has not, or it is no Xen host.
        CannotStart: what libvirt says of it is no XML.
    """
    where = f"libvirt at {connection.shown}"
    libvirt = connection.libvirt
    try:
        text = connection.handle.getCapabilities()
    except libvirt.libvirtError as error:
        raise failed(error, "tell what it can", where) from None
    capabilities = described(text, where)
    machines = {element.text for element in capabilities.iterfind("guest/arch/machine")}
    if MODES[mode][1] in machines:
        return
    if MODES["pv"][1] not in machines:
        raise Unavailable(
            f"{where} is no Xen host",
            remedy="--lab=xen for an emulated one, or a host that runs Xen",
        )
    raise Unavailable(
        f"{where} has no machines of the mode {mode}: its processor does not help Xen (or may not)",
        remedy="mode='pv' needs no help",
    )


def set_limits(domain: Domain, limits: Limits) -> dict[str, str]:
    """Have Xen's scheduler hold a machine to its limits; them, as Xen has them.

    Raises:
        CannotStart: Xen has another value than was asked for, or takes none.
    """
    asked = {
        name: value
        for name, value in (("weight", weight_of(limits)), ("cap", cap_of(limits)))
        if value is not None
    }
    if not asked:
        return {}
    libvirt = domain.connection.libvirt
    try:
        domain.handle.setSchedulerParameters(asked)
    except libvirt.libvirtError as error:
        raise failed(error, "set its weight", domain.name) from None
    found = domain.scheduler()
    return {
        f"xen_{name}": domain.check(name, value, found.get(name)) for name, value in asked.items()
    }
