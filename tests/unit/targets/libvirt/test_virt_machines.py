"""Processors and memory of the host, as libvirt reports them."""

from __future__ import annotations

from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import pytest

from pytest_vperf.targets.base import CannotStart
from pytest_vperf.targets.libvirt.daemon import Machines
from pytest_vperf.targets.scope import Scope
from pytest_vperf.targets.xen.domus import Domus

if TYPE_CHECKING:
    from types import ModuleType


def on(connection: Any) -> Machines:
    daemon: Any = SimpleNamespace(connection=connection)
    nothing: Any = None
    return Machines(lambda: daemon, nothing, nothing, Scope())


def test_processors_are_counted_by_the_hypervisor(libvirt: ModuleType) -> None:
    # Model, MiB, processors, MHz, nodes, sockets, cores, threads (virNodeInfo).
    handle = SimpleNamespace(getInfo=lambda: ["x86_64", 32768, 24, 2660, 1, 4, 6, 1])
    assert on(SimpleNamespace(handle=handle, libvirt=libvirt, shown="xen:///system")).cpus == 24


def test_a_hypervisor_that_cannot_be_queried_is_an_error(libvirt: ModuleType) -> None:
    def refuse() -> None:
        raise libvirt.libvirtError("libxl_get_physinfo failed")

    handle = SimpleNamespace(getInfo=refuse)
    machines = on(SimpleNamespace(handle=handle, libvirt=libvirt, shown="xen:///system"))
    with pytest.raises(CannotStart, match="libvirt at xen:///system: libvirt could not tell how"):
        _ = machines.cpus


def test_processors_of_libvirts_test_driver(test_driver: object) -> None:
    assert on(test_driver).cpus == 16  # libvirt, src/test/test_driver.c


def test_xen_keeps_some_memory_of_each_machine(libvirt: ModuleType) -> None:
    # Without that seven of 640 MiB would be all that is free, and the seventh would not start.
    handle = SimpleNamespace(getFreeMemory=lambda: 7 * 640 * 2**20)
    connection = SimpleNamespace(handle=handle, libvirt=libvirt, shown="xen:///system")
    daemon: Any = SimpleNamespace(connection=connection)
    nothing: Any = None
    assert Domus(lambda: daemon, nothing, nothing, Scope()).memory_each(7, "1 GiB") == "576 MiB"
