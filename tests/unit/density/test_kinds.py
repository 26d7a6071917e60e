"""What each kind of target needs to fill a host, with fake hosts."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from pytest_vperf.density.kinds import kind_of
from pytest_vperf.targets.base import CannotConnect
from pytest_vperf.targets.kinds import KINDS
from pytest_vperf.targets.scope import Scope
from pytest_vperf.targets.xen.domus import Domus

libvirt = pytest.importorskip("libvirt", reason="libvirt-python is not installed")


def test_a_lost_hypervisor_is_a_connection_error() -> None:
    class Lost(libvirt.libvirtError):  # type: ignore[misc, name-defined]
        def __init__(self) -> None:
            Exception.__init__(self, "gone")

        def get_error_code(self) -> int:
            return int(libvirt.VIR_ERR_NO_CONNECT)

        def get_error_message(self) -> str:
            return "Connection reset by peer"

    def asked() -> int:
        if there:
            return 5 << 30
        raise Lost

    there = True
    handle = SimpleNamespace(getFreeMemory=asked)
    connection = SimpleNamespace(handle=handle, libvirt=libvirt, shown="xen:///system")
    nothing: Any = None
    daemon: Any = SimpleNamespace(connection=connection)
    domus = Domus(lambda: daemon, nothing, nothing, Scope())
    kind = kind_of(KINDS, domus, nothing, Scope(), lambda size: size)
    assert kind.available() == 5 << 30
    assert domus.memory_each(2, "512 MiB") == "512 MiB"
    there = False
    with pytest.raises(CannotConnect, match="while it was to tell what memory is free: Connection"):
        kind.available()
