"""A Xen host's modes, and the weights of its scheduler."""

from __future__ import annotations

import sys
from types import ModuleType, SimpleNamespace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pytest_vperf.targets.base import CannotStart, Unavailable
from pytest_vperf.targets.limits import Limits
from pytest_vperf.targets.xen.domus import cap_of, need_mode, set_limits, weight_of


@pytest.mark.parametrize(
    ("shares", "weight"), [(1024, 256), (512, 128), (2048, 512), (4, 1), (262_140, 65_535)]
)
def test_cpu_shares_become_weights(shares: int, weight: int) -> None:
    assert weight_of(Limits(cpu_shares=shares)) == weight


@given(st.integers(100, 262_140), st.integers(100, 262_140))
def test_ratio_of_two_weights_is_kept(one: int, other: int) -> None:
    """As far as integers allow: a weight is off by at most 0.5."""
    first, second = (weight_of(Limits(cpu_shares=shares)) for shares in (one, other))
    assert first is not None
    assert second is not None
    assert first / second == pytest.approx(one / other, rel=2 / one + 2 / other + 1e-3)
    if one >= other:
        assert first >= second


@pytest.mark.parametrize(("shares", "weight"), [(2, 0), (262_144, 65_536)])
def test_weights_beyond_xens_range_are_refused(shares: int, weight: int) -> None:
    with pytest.raises(CannotStart) as caught:
        weight_of(Limits(cpu_shares=shares))
    assert str(caught.value) == (
        f"cpu_shares is {shares}, a weight of {weight} for Xen, which takes 1 to 65535"
    )


@pytest.mark.parametrize(("cpus", "cap"), [(0.5, 50), (1.0, 100), (2.5, 250), (0.01, 1)])
def test_cpus_become_a_cap(cpus: float, cap: int) -> None:
    assert cap_of(Limits(cpus=cpus)) == cap


def test_without_limits_nothing_is_set() -> None:
    assert weight_of(Limits()) is None
    assert cap_of(Limits()) is None


class Refusal(Exception):
    """libvirt's error."""

    def get_error_message(self) -> str:
        return str(self)

    def get_error_code(self) -> int:
        return 1

    def get_error_domain(self) -> int:
        return 64  # VIR_FROM_LIBXL


@pytest.fixture
def libvirt(monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    made: Any = ModuleType("libvirt")
    made.libvirtError = Refusal
    made.VIR_ERR_NO_CONNECT, made.VIR_ERR_INVALID_CONN = 5, 6
    made.VIR_FROM_RPC, made.VIR_FROM_REMOTE = 7, 13
    made.registerErrorHandler = lambda *_: None
    monkeypatch.setitem(sys.modules, "libvirt", made)
    return made  # type: ignore[no-any-return]


#: From a real host with Xen 4.17, shortened: with hardware virtualisation it has all three.
GUESTS = {
    "xenpv": "<guest><os_type>xen</os_type><arch name='x86_64'><machine>xenpv</machine>"
    "<domain type='xen'/></arch></guest>",
    "xenfv": "<guest><os_type>hvm</os_type><arch name='x86_64'><machine>xenfv</machine>"
    "<domain type='xen'/></arch></guest>",
    "xenpvh": "<guest><os_type>xenpvh</os_type><arch name='x86_64'><machine>xenpvh</machine>"
    "<domain type='xen'/></arch></guest>",
    "q35": "<guest><os_type>hvm</os_type><arch name='x86_64'><machine>q35</machine>"
    "<domain type='qemu'/></arch></guest>",
}


def host(libvirt: ModuleType, *machines: str) -> Any:
    text = f"<capabilities><host/>{''.join(GUESTS[name] for name in machines)}</capabilities>"
    return SimpleNamespace(
        libvirt=libvirt,
        shown="xen+ssh://host/",
        handle=SimpleNamespace(getCapabilities=lambda: text),
    )


@pytest.mark.parametrize("mode", ["pv", "pvh", "hvm"])
def test_a_host_with_all_modes_is_accepted(libvirt: ModuleType, mode: str) -> None:
    need_mode(host(libvirt, "xenpv", "xenpvh", "xenfv"), mode)


@pytest.mark.parametrize("mode", ["pvh", "hvm"])
def test_modes_that_need_hardware_virtualisation_are_unavailable_without_it(
    libvirt: ModuleType, mode: str
) -> None:
    need_mode(host(libvirt, "xenpv"), "pv")
    with pytest.raises(Unavailable) as caught:
        need_mode(host(libvirt, "xenpv"), mode)
    assert caught.value.reason == (
        f"libvirt at xen+ssh://host/ cannot run machines in the mode {mode}:"
        " it has no hardware virtualisation, or Xen may not use it"
    )
    assert caught.value.remedy == "mode='pv' needs none"


@pytest.mark.parametrize("mode", ["pv", "hvm"])
@pytest.mark.parametrize("machines", [(), ("q35",)])
def test_a_host_without_xen_is_unavailable(
    libvirt: ModuleType, mode: str, machines: tuple[str, ...]
) -> None:
    with pytest.raises(Unavailable) as caught:
        need_mode(host(libvirt, *machines), mode)
    assert caught.value.reason == "libvirt at xen+ssh://host/ is no Xen host"
    assert caught.value.remedy == "--vperf-lab=xen for an emulated one, or a host that runs Xen"


def test_unavailable_capabilities_are_an_error(libvirt: ModuleType) -> None:
    connection = host(libvirt)

    def refuse() -> str:
        raise Refusal("internal error: libxl_get_physinfo_info failed")

    connection.handle.getCapabilities = refuse
    with pytest.raises(CannotStart) as caught:
        need_mode(connection, "pv")
    assert str(caught.value) == (
        "libvirt at xen+ssh://host/: libvirt could not tell what it can: libxl_get_physinfo_info failed"
    )


class Scheduler:
    """Xen's scheduler, which may set another value."""

    def __init__(self, libvirt: ModuleType, **found: int) -> None:
        from pytest_vperf.targets.libvirt.domain import Domain

        self.asked: dict[str, int] = {}
        self._found = found
        watches = SimpleNamespace(add=lambda _: None)
        connection: Any = SimpleNamespace(libvirt=libvirt, watches=watches)
        self.domain = Domain(connection, "vperf-0a-1", "domu pv")
        self.domain.handle = self

    def setSchedulerParameters(self, asked: dict[str, int]) -> None:
        if not asked:
            raise Refusal("nothing was asked for")
        self.asked = asked

    def schedulerParameters(self) -> dict[str, int]:
        return {"weight": 256, "cap": 0, **self.asked, **self._found}


def test_limits_are_set_and_read_back(libvirt: ModuleType) -> None:
    scheduler = Scheduler(libvirt)
    assert set_limits(scheduler.domain, Limits(cpus=0.5, cpu_shares=512)) == {
        "xen_weight": "128",
        "xen_cap": "50",
    }
    assert scheduler.asked == {"weight": 128, "cap": 50}


def test_limits_that_were_not_requested_are_not_set(libvirt: ModuleType) -> None:
    scheduler = Scheduler(libvirt)
    assert set_limits(scheduler.domain, Limits(cpuset="0")) == {}
    assert set_limits(scheduler.domain, Limits(cpu_shares=1024)) == {"xen_weight": "256"}
    assert scheduler.asked == {"weight": 256}


def test_a_limit_that_differs_from_the_request_is_an_error(libvirt: ModuleType) -> None:
    with pytest.raises(CannotStart) as caught:
        set_limits(Scheduler(libvirt, cap=0).domain, Limits(cpus=0.5))
    assert str(caught.value) == "domu pv: asked for cap 50, the hypervisor has 0"


def test_a_limit_that_the_host_refuses_is_an_error(libvirt: ModuleType) -> None:
    scheduler = Scheduler(libvirt)

    def refuse(_: dict[str, int]) -> None:
        raise Refusal("Requested operation is not valid: Only 'credit' scheduler is supported")

    scheduler.domain.handle = SimpleNamespace(setSchedulerParameters=refuse)
    with pytest.raises(CannotStart) as caught:
        set_limits(scheduler.domain, Limits(cpu_shares=512))
    assert str(caught.value) == (
        "domu pv: libvirt could not set its weight: Only 'credit' scheduler is supported"
    )


def test_capabilities_that_are_not_xml_are_an_error(libvirt: ModuleType) -> None:
    connection = host(libvirt)
    connection.handle.getCapabilities = lambda: "<capabilities>"
    with pytest.raises(CannotStart) as caught:
        need_mode(connection, "pv")
    assert str(caught.value) == (
        "libvirt at xen+ssh://host/: libvirt's description of it is not XML: no element found: line 1, column 14"
    )
