"""A guest's domain XML: libvirt reads from it the guest that was requested."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any
from xml.etree import ElementTree

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pytest_vperf.targets.guest.boot import Boot, CardConfig, DiskConfig, GuestConfig, domain_xml
from pytest_vperf.targets.libvirt.storage import labels_of
from pytest_vperf.targets.limits import Limits

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

DIRECT = Boot("/pool/root.qcow2", "/pool/kernel", "/pool/initramfs", "root=/dev/vda quiet")
GUEST = GuestConfig(
    name="vperf-0a-1",
    kind="kvm",
    boot=DIRECT,
    vcpus=2,
    memory_mib=512,
    machine="q35",
    cpu="host-passthrough",
    limits=Limits(),
    labels={"pytest-vperf.run": "0a"},
)
CARD = CardConfig(bridge="br-vperf", mac="52:54:00:00:00:01")


def tree(config: GuestConfig) -> ElementTree.Element:
    return ElementTree.fromstring(domain_xml(config))


def text(config: GuestConfig, path: str) -> str | None:
    return tree(config).findtext(path)


def attributes(config: GuestConfig, path: str) -> dict[str, str]:
    element = tree(config).find(path)
    assert element is not None, path
    return element.attrib


def test_a_shared_group_is_the_partition_in_the_domain_xml() -> None:
    assert tree(GUEST).find("resource") is None
    shared = replace(GUEST, partition="/vperf-0a.density1")
    assert text(shared, "resource/partition") == "/vperf-0a.density1"


@pytest.mark.parametrize("kind", ["kvm", "qemu"])
def test_basic_settings_in_the_domain_xml(kind: str) -> None:
    guest = replace(GUEST, kind=kind)
    assert tree(guest).attrib == {"type": kind}
    assert text(guest, "name") == "vperf-0a-1"
    assert (text(guest, "memory"), attributes(guest, "memory")) == ("512", {"unit": "MiB"})
    assert (text(guest, "vcpu"), attributes(guest, "vcpu")) == ("2", {})
    assert labels_of(domain_xml(guest)) == {"run": "0a"}


@pytest.mark.parametrize("event", ["on_poweroff", "on_reboot", "on_crash"])
def test_a_domain_is_destroyed_when_it_ends(event: str) -> None:
    assert text(GUEST, event) == "destroy"


def test_without_limits_the_domain_xml_has_none() -> None:
    assert tree(GUEST).find("cputune") is None


@pytest.mark.parametrize(
    ("limits", "found"),
    [
        (Limits(cpu_shares=512), {"shares": "512"}),
        (Limits(cpus=0.5), {"global_period": "100000", "global_quota": "50000"}),
        (
            Limits(cpus=1.5, cpu_shares=2),
            {"shares": "2", "global_period": "100000", "global_quota": "150000"},
        ),
    ],
)
def test_cpu_limits_apply_to_the_whole_machine(limits: Limits, found: dict[str, str]) -> None:
    """Not only to its virtual CPUs: so the limit means the same as for a container."""
    tune = tree(replace(GUEST, limits=limits)).find("cputune")
    assert tune is not None
    assert {each.tag: each.text for each in tune} == found


def test_pinning_covers_vcpus_and_the_emulator() -> None:
    guest = replace(GUEST, limits=Limits(cpuset="0-1", cpu_shares=512))
    assert attributes(guest, "vcpu") == {"cpuset": "0-1"}
    assert attributes(guest, "cputune/emulatorpin") == {"cpuset": "0-1"}
    # Alone it needs no more: the hypervisor's threads follow (formatdomain, "emulatorpin").
    assert attributes(replace(GUEST, limits=Limits(cpuset="1")), "vcpu") == {"cpuset": "1"}


def test_direct_boot_in_the_domain_xml() -> None:
    assert attributes(GUEST, "os/type") == {"arch": "x86_64", "machine": "q35"}
    assert text(GUEST, "os/type") == "hvm"
    assert text(GUEST, "os/kernel") == "/pool/kernel"
    assert text(GUEST, "os/initrd") == "/pool/initramfs"
    assert text(GUEST, "os/cmdline") == "root=/dev/vda quiet"


def test_firmware_boot_from_a_disk_in_the_domain_xml() -> None:
    guest = replace(GUEST, boot=Boot("/pool/o.qcow2", boot_disk="/pool/boot.img"))
    for path in ("os/kernel", "os/initrd", "os/cmdline"):
        assert tree(guest).find(path) is None
    own, loader = tree(guest).findall("devices/disk")
    assert own.find("boot") is None
    assert loader.find("boot").attrib == {"order": "1"}  # type: ignore[union-attr]
    assert loader.find("readonly") is not None
    assert [disk.find("target").get("dev") for disk in (own, loader)] == ["vda", "vdb"]  # type: ignore[union-attr]


def test_the_domain_xml_of_a_machine_without_a_disk() -> None:
    """As the probe uses it."""
    guest = replace(GUEST, boot=replace(DIRECT, disk=""))
    assert tree(guest).find("devices/disk") is None


@pytest.mark.parametrize(
    ("cpu", "found", "model"),
    [
        ("host-passthrough", {"mode": "host-passthrough"}, None),
        ("maximum", {"mode": "maximum"}, None),
        ("Nehalem", {"mode": "custom", "match": "exact"}, "Nehalem"),
    ],
)
def test_cpu_model_in_the_domain_xml(cpu: str, found: dict[str, str], model: str | None) -> None:
    guest = replace(GUEST, cpu=cpu)
    assert attributes(guest, "cpu") == found
    assert text(guest, "cpu/model") == model


def test_disks_in_order_with_their_caps() -> None:
    disks = (
        DiskConfig("/dev/loop0", "first"),
        DiskConfig("/dev/loop1", "second", {"read_iops_sec": 100, "write_bytes_sec": 1 << 20}),
    )
    root, plain, capped = tree(replace(GUEST, disks=disks)).findall("devices/disk")

    def of(disk: ElementTree.Element, tag: str) -> dict[str, str]:
        found = disk.find(tag)
        assert found is not None, tag
        return found.attrib

    assert of(root, "source") == {"file": "/pool/root.qcow2"}
    assert of(root, "driver")["type"] == "qcow2"
    assert of(plain, "source") == {"dev": "/dev/loop0"}
    # The guest's disk is used directly, without the host's page cache.
    assert of(plain, "driver") == {"name": "qemu", "type": "raw", "cache": "none", "io": "threads"}
    assert plain.find("iotune") is None
    caps = capped.find("iotune")
    assert caps is not None
    assert {cap.tag: cap.text for cap in caps} == {
        "read_iops_sec": "100",
        "write_bytes_sec": "1048576",
    }
    assert [disk.findtext("serial") for disk in (root, plain, capped)] == [None, "first", "second"]
    assert [of(disk, "target")["dev"] for disk in (root, plain, capped)] == ["vda", "vdb", "vdc"]
    assert {of(disk, "target")["bus"] for disk in (root, plain, capped)} == {"virtio"}


@pytest.mark.parametrize(("vhost", "driver"), [(False, "qemu"), (True, "vhost")])
def test_network_card_in_the_domain_xml(vhost: bool, driver: str) -> None:
    guest = replace(GUEST, card=replace(CARD, vhost=vhost))
    card = "devices/interface"
    assert attributes(guest, card) == {"type": "bridge"}
    assert attributes(guest, f"{card}/source")["bridge"] == "br-vperf"
    assert attributes(guest, f"{card}/mac") == {"address": "52:54:00:00:00:01"}
    assert attributes(guest, f"{card}/model") == {"type": "virtio"}
    assert attributes(guest, f"{card}/driver")["name"] == driver
    assert attributes(guest, f"{card}/rom") == {"enabled": "no"}
    assert tree(GUEST).find(card) is None


def test_open_vswitch_port_in_the_domain_xml() -> None:
    card = "devices/interface"
    assert tree(replace(GUEST, card=CARD)).find(f"{card}/virtualport") is None
    guest = replace(GUEST, card=replace(CARD, switch="openvswitch"))
    assert attributes(guest, card) == {"type": "bridge"}
    assert attributes(guest, f"{card}/source") == {"bridge": "br-vperf"}
    assert attributes(guest, f"{card}/virtualport") == {"type": "openvswitch"}
    assert tree(guest).find(f"{card}/driver/host") is None


def test_a_card_without_offloads_turns_all_of_them_off() -> None:
    guest = replace(GUEST, card=replace(CARD, offloads=False))
    assert attributes(guest, "devices/interface/driver/host") == dict.fromkeys(
        ("csum", "gso", "tso4", "tso6", "ecn", "ufo"), "off"
    )


def test_requests_and_answers() -> None:
    assert attributes(GUEST, "devices/channel/target") == {
        "type": "virtio",
        "name": "org.qemu.guest_agent.0",
    }
    assert attributes(GUEST, "devices/serial") == {"type": "pty"}


# A path can have anything but NUL; XML has no control characters.
words = st.text(st.characters(blacklist_categories=("Cs", "Cc")) | st.sampled_from("&<>\"']]>"))


@given(words, words)
def test_special_characters_are_escaped(path: str, parameters: str) -> None:
    boot = replace(DIRECT, disk=f"/{path}", parameters=parameters)
    guest = replace(GUEST, name=f"n{path}", boot=boot)
    assert text(guest, "name") == f"n{path}"
    assert attributes(guest, "devices/disk/source") == {"file": f"/{path}"}
    assert text(guest, "os/cmdline") == parameters


@pytest.fixture
def read() -> Iterator[Callable[[str], str]]:
    """Has the real library validate and parse a domain XML; returns it as the library writes it."""
    libvirt: Any = pytest.importorskip("libvirt", reason="libvirt-python is not installed")
    if not Path("/usr/share/libvirt/schemas/domain.rng").exists():
        pytest.skip("libvirt's schemas are not installed")
    libvirt.registerErrorHandler(lambda *_: None, None)
    connection = libvirt.open("test:///default")

    def make(xml: str) -> str:
        domain = connection.createXML(xml, libvirt.VIR_DOMAIN_START_VALIDATE)
        try:
            return str(domain.XMLDesc())
        finally:
            domain.destroy()

    yield make
    connection.close()


@pytest.mark.parametrize(
    "guest",
    [
        GUEST,
        replace(GUEST, kind="qemu", cpu="maximum", machine="pc"),
        replace(GUEST, cpu="Nehalem", limits=Limits(0.5, "0", 512), card=CARD),
        replace(GUEST, card=replace(CARD, vhost=True), limits=Limits(cpuset="0-1")),
        replace(GUEST, card=replace(CARD, switch="openvswitch", offloads=False)),
        replace(GUEST, boot=Boot("/o", boot_disk="/b")),
        replace(GUEST, boot=replace(DIRECT, disk="")),
        replace(GUEST, disks=(DiskConfig("/dev/loop0", "s", {"read_iops_sec": 100}),)),
        replace(GUEST, name="a & <b> \"c\" 'd'"),
    ],
    ids=["kvm", "qemu", "limits", "vhost", "openvswitch", "firmware", "no disk", "disks", "words"],
)
def test_libvirt_accepts_the_domain_xml_and_keeps_every_setting(
    read: Callable[[str], str], guest: GuestConfig
) -> None:
    """The library's schema and parser decide; no setting is lost."""
    known = ElementTree.fromstring(read(domain_xml(guest)))
    said = tree(guest)
    assert known.findtext("name") == guest.name
    assert known.findtext("memory") == str(guest.memory_mib * 1024)  # KiB
    assert labels_of(ElementTree.tostring(known, "unicode")) == {"run": "0a"}
    for path in ("on_reboot", "os/kernel", "os/cmdline", "cputune/shares", "cputune/global_quota"):
        assert known.findtext(path) == said.findtext(path)
    for tag in ("disk", "interface", "channel", "serial", "rng"):
        assert len(known.findall(f"devices/{tag}")) == len(said.findall(f"devices/{tag}"))
    for path in ("virtualport", "driver/host"):
        there = known.find(f"devices/interface/{path}")
        asked = said.find(f"devices/interface/{path}")
        assert (there is None) == (asked is None)
        if there is not None and asked is not None:
            assert there.attrib == asked.attrib
    assert known.findtext("devices/disk/iotune/read_iops_sec") == said.findtext(
        "devices/disk/iotune/read_iops_sec"
    )


def test_libvirts_schema_notices_a_mistake(read: Callable[[str], str]) -> None:
    """Otherwise the test above would prove nothing."""
    import libvirt

    with pytest.raises(libvirt.libvirtError, match="failed to validate"):
        read(domain_xml(GUEST).replace("on_crash", "on_crush"))
