"""The commands of a mirror, and that it removes only its own objects. Some tests need root."""

from __future__ import annotations

import os
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import pytest
from far import Far

from pytest_vperf.machine.runs import Run
from pytest_vperf.targets.base import TargetError, Unavailable
from pytest_vperf.targets.libvirt.network import VirtualLink
from pytest_vperf.targets.network.commands import ip, ip_json
from pytest_vperf.targets.network.mirror import mirrored
from pytest_vperf.targets.network.switch import Switch

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path


def guest() -> Any:
    link = VirtualLink("198.18.4.3", "198.18.4.0/24", "", monitor="vp0a1b2c3dm3")
    return SimpleNamespace(name="guest kvm", port="vnet7", link=link)


def told_by(far: Far, **options: Any) -> list[str]:
    with mirrored(guest(), host=far, **options):  # type: ignore[arg-type]
        far.told.append("-- the block")
    return far.told


U32 = "protocol all u32 match u32 0 0 action mirred egress mirror dev vp0a1b2c3dm3"


def test_the_tap_of_a_guest_is_mirrored_by_commands_on_its_host() -> None:
    assert told_by(Far()) == [
        "ip link add vp0a1b2c3dm3 type dummy",
        "ip link set vp0a1b2c3dm3 addrgenmode none",
        "ip link set vp0a1b2c3dm3 up",
        "tc qdisc add dev vnet7 clsact",
        f"tc filter add dev vnet7 egress {U32}",
        f"tc filter add dev vnet7 ingress {U32}",
        "-- the block",
        "tc qdisc delete dev vnet7 clsact",
        "ip link delete vp0a1b2c3dm3",
    ]


def test_without_dummy_devices_and_ipv6_a_veth_pair_is_used() -> None:
    far = Far(
        ip_link_add_vp0a1b2c3dm3_type_dummy=(2, "Error: Unknown device type."),
        ip_link_set_vp0a1b2c3dm3_addrgenmode=(2, "RTNETLINK answers: No such file or directory"),
    )
    assert told_by(far)[1:6] == [
        "ip link add vp0a1b2c3dm3 type veth peer name vp0a1b2c3dm3e",
        "ip link set vp0a1b2c3dm3 addrgenmode none",
        "ip link set vp0a1b2c3dm3 up",
        "ip link set vp0a1b2c3dm3e addrgenmode none",
        "ip link set vp0a1b2c3dm3e up",
    ]


ASK = "ovs-vsctl --timeout=10"


def test_an_open_vswitch_port_is_mirrored_by_the_switch() -> None:
    told = told_by(Far(ovs=(0, "br7\n")), by="ovs")
    assert told == [
        f"{ASK} port-to-br vnet7",
        "ip link add vp0a1b2c3dm3 type dummy",
        "ip link set vp0a1b2c3dm3 addrgenmode none",
        "ip link set vp0a1b2c3dm3 up",
        f"{ASK} -- add-port br7 vp0a1b2c3dm3 -- --id=@p get port vnet7 -- --id=@o get port vp0a1b2c3dm3"
        " -- --id=@m create mirror name=vp0a1b2c3dm3 output-port=@o select-dst-port=@p select-src-port=@p"
        " -- add bridge br7 mirrors @m",
        "-- the block",
        f"{ASK} -- --id=@m get mirror vp0a1b2c3dm3 -- remove bridge br7 mirrors @m"
        " -- --if-exists del-port br7 vp0a1b2c3dm3",
        "ip link delete vp0a1b2c3dm3",
    ]


@pytest.mark.parametrize(
    ("by", "answers", "said"),
    [
        (
            "tc",
            {"tc": (127, "sh: exec: tc: not found")},
            "tc is not installed on host (lab kvm) (to mend it: apt-get install iproute2, there)",
        ),
        (
            "ovs",
            {"ovs": (127, "")},
            "ovs-vsctl is not installed on host (lab kvm) (to mend it: apt-get install openvswitch-switch, there)",
        ),
        (
            "ovs",
            {"ovs": (1, "ovs-vsctl: no port named vnet7\n")},
            "vnet7 is on no switch of Open vSwitch's: ovs-vsctl --timeout=10 port-to-br vnet7 on host (lab kvm):"
            " ovs-vsctl: no port named vnet7 (to mend it: start a guest with network=guests.ovs_network, or mirror"
            " the port with tc)",
        ),
        (
            "tc",
            {"tc": (2, "RTNETLINK answers: Operation not permitted")},
            "tc qdisc add dev vnet7 clsact on host (lab kvm): RTNETLINK answers: Operation not permitted"
            " (to mend it: run as the machine's root; in a container, run it with --privileged)",
        ),
    ],
)
def test_targets_that_a_machine_lacks_are_not_measured(
    by: Any, answers: dict[str, tuple[int, str]], said: str
) -> None:
    far = Far(answers)
    with pytest.raises(Unavailable) as caught:
        told_by(far, by=by)
    assert str(caught.value) == said
    assert far.told[-1] in (
        "ip link delete vp0a1b2c3dm3",
        f"{ASK} port-to-br vnet7",
    )


def test_an_existing_mirror_stays() -> None:
    far = Far(ip_link_add=(2, "RTNETLINK answers: File exists"))
    with pytest.raises(TargetError, match="File exists"):
        told_by(far)
    assert far.told == ["ip link add vp0a1b2c3dm3 type dummy"]


def test_an_interrupt_in_the_middle_leaves_nothing() -> None:
    far = Far(interrupt="qdisc add")
    with pytest.raises(KeyboardInterrupt):
        told_by(far)
    assert far.told[-2:] == ["tc qdisc delete dev vnet7 clsact", "ip link delete vp0a1b2c3dm3"]
    far = Far({ASK: (0, "br7\n")}, interrupt="create mirror")
    with pytest.raises(KeyboardInterrupt):
        told_by(far, by="ovs")
    assert far.told[-2].endswith("-- --if-exists del-port br7 vp0a1b2c3dm3")
    assert far.told[-1] == "ip link delete vp0a1b2c3dm3"


def test_a_switch_that_refuses_a_mirror_keeps_nothing_of_it() -> None:
    far = Far({f"{ASK} --": (1, "no"), ASK: (0, "br7\n")})
    with pytest.raises(TargetError, match=r"vp0a1b2c3dm3 .* on host \(lab kvm\): no"):
        told_by(far, by="ovs")
    assert far.told[-1] == "ip link delete vp0a1b2c3dm3"


def test_mirrors_that_would_copy_nothing_are_refused() -> None:
    with pytest.raises(ValueError, match="by is 'OVS', not one of tc, ovs"):
        told_by(Far(), by="OVS")
    far = guest()
    far.port = ""
    with (
        pytest.raises(Unavailable, match="the host's side of a virtual link cannot be mirrored"),
        mirrored(far, host=Far()),  # type: ignore[arg-type]
    ):
        pass


@pytest.fixture
def made(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Switch]:
    if os.geteuid() != 0:
        pytest.skip("network namespaces need root")
    monkeypatch.setenv("VPERF_RUNS_DIR", str(tmp_path / "runs"))
    with Run.begin() as run:
        try:
            switch = Switch(run)
        except Unavailable as error:
            pytest.skip(str(error))
        yield switch
        switch.close()


def test_the_kernel_itself_sends_nothing_to_a_monitor(made: Switch) -> None:
    _, link = made.new_host()
    target: Any = SimpleNamespace(name="other host", link=link)
    inside = link.port.namespace
    with mirrored(target, host=target) as mirror:
        shown = ip_json("address", "show", "dev", mirror.monitor, namespace=inside)
        assert [each["addr_info"] for each in shown] == [[]]
        assert mirror.copied >= 0
        with pytest.raises(TargetError), mirrored(target, host=target):
            pass
        assert mirror.copied >= 0  # the other one has not taken it away
    assert mirror.monitor not in ip("link", "show", namespace=inside)
