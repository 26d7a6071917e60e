"""Networks that a daemon refuses to make."""

from __future__ import annotations

from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import pytest

from pytest_vperf.targets.base import CannotStart, Unavailable
from pytest_vperf.targets.libvirt.network import VirtualNetwork

if TYPE_CHECKING:
    from types import ModuleType

SAID = "error creating bridge interface vp00000001n0: Operation not permitted"


def connection(libvirt: ModuleType, uri: str, error: Exception) -> Any:
    libvirt.VIR_ERR_NO_SUPPORT = 3  # type: ignore[attr-defined]

    def refuse(xml: str) -> None:
        raise error

    handle = SimpleNamespace(networkCreateXML=refuse)
    return SimpleNamespace(uri=uri, shown=uri, libvirt=libvirt, handle=handle)


def test_a_session_daemon_has_no_networks(libvirt: ModuleType) -> None:
    there = connection(libvirt, "qemu:///session", libvirt.libvirtError(SAID, 38, 10))
    with pytest.raises(Unavailable) as caught:
        VirtualNetwork(there, "00000001")
    assert str(caught.value) == (
        f"libvirt at qemu:///session could not make a network: {SAID}"
        " (to mend it: --libvirt-uri=qemu:///system, as root or a member of the group libvirt)"
    )


def test_a_system_daemon_that_refuses_a_network_is_an_error(libvirt: ModuleType) -> None:
    there = connection(libvirt, "qemu:///system", libvirt.libvirtError(SAID, 38, 10))
    with pytest.raises(CannotStart, match=f"could not make a network: {SAID}"):
        VirtualNetwork(there, "00000001")


def test_a_driver_without_networks_is_unavailable(libvirt: ModuleType) -> None:
    there = connection(libvirt, "test:///default", libvirt.libvirtError("no", 3, 12))
    with pytest.raises(Unavailable, match="libvirt at test:///default has no networks"):
        VirtualNetwork(there, "00000001")
