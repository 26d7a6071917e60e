"""A domU's domain XML: libvirt reads from it the machine that was requested."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import pytest

from pytest_vperf.targets.libvirt.storage import labels_of
from pytest_vperf.targets.limits import Limits
from pytest_vperf.targets.xen.boot import MODES, DomuConfig, XenDisk, domain_xml

DOMU = DomuConfig(
    name="vperf-0a-1",
    mode="pv",
    kernel="/pool/kernel",
    initramfs="/pool/initramfs",
    parameters="console=hvc0 x=<&>",
    disks=(XenDisk("/pool/root.qcow2", "qcow2"),),
    vcpus=2,
    memory_mib=512,
    labels={"pytest-vperf.run": "0a"},
)


def tree(config: DomuConfig) -> ElementTree.Element:
    return ElementTree.fromstring(domain_xml(config))


def attributes(element: ElementTree.Element, path: str) -> dict[str, str]:
    found = element.find(path)
    assert found is not None, path
    return found.attrib


@pytest.mark.parametrize(
    ("mode", "system", "machine"),
    [("pv", "linux", "xenpv"), ("pvh", "xenpvh", "xenpvh"), ("hvm", "hvm", "xenfv")],
)
def test_basic_settings_in_the_domain_xml(mode: str, system: str, machine: str) -> None:
    domain = tree(replace(DOMU, mode=mode))
    assert domain.attrib == {"type": "xen"}
    assert domain.findtext("os/type") == system
    assert attributes(domain, "os/type") == {"arch": "x86_64", "machine": machine}
    assert domain.findtext("os/kernel") == "/pool/kernel"
    assert domain.findtext("os/initrd") == "/pool/initramfs"
    assert domain.findtext("os/cmdline") == "console=hvc0 x=<&>"
    assert (domain.findtext("memory"), attributes(domain, "memory")) == ("512", {"unit": "MiB"})
    assert (domain.findtext("vcpu"), attributes(domain, "vcpu")) == ("2", {})
    assert attributes(domain, "devices/console/target") == {"type": "xen", "port": "0"}
    assert labels_of(domain_xml(DOMU)) == {"run": "0a"}
    for event in ("on_poweroff", "on_reboot", "on_crash"):
        assert domain.findtext(event) == "destroy"


def test_pinning_in_the_domain_xml() -> None:
    assert attributes(tree(replace(DOMU, limits=Limits(cpuset="1"))), "vcpu") == {"cpuset": "1"}


def test_disks_in_the_domain_xml_are_in_order() -> None:
    """An overlay needs QEMU; a raw disk is served by the host's kernel."""
    disks = (
        XenDisk("/pool/root.qcow2", "qcow2"),
        XenDisk("/pool/image", readonly=True),
        XenDisk("/dev/loop0", block=True),
    )
    found = tree(replace(DOMU, disks=disks)).findall("devices/disk")
    assert [attributes(disk, "target")["dev"] for disk in found] == ["xvda", "xvdb", "xvdc"]
    assert {attributes(disk, "target")["bus"] for disk in found} == {"xen"}
    assert [attributes(disk, "source") for disk in found] == [
        {"file": "/pool/root.qcow2"},
        {"file": "/pool/image"},
        {"dev": "/dev/loop0"},
    ]
    assert [disk.get("type") for disk in found] == ["file", "file", "block"]
    assert [attributes(disk, "driver") for disk in found] == [
        {"name": "qemu", "type": "qcow2"},
        {"name": "phy", "type": "raw"},
        {"name": "phy", "type": "raw"},
    ]
    assert [disk.find("readonly") is not None for disk in found] == [False, True, False]


def test_network_card_in_the_domain_xml() -> None:
    assert tree(DOMU).find("devices/interface") is None
    domain = tree(replace(DOMU, bridge="br-vperf", mac="00:16:3e:00:00:01"))
    assert attributes(domain, "devices/interface")["type"] == "bridge"
    assert attributes(domain, "devices/interface/source")["bridge"] == "br-vperf"
    assert attributes(domain, "devices/interface/mac") == {"address": "00:16:3e:00:00:01"}


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize(
    "domu",
    [
        DOMU,
        replace(
            DOMU,
            name="a & <b> \"c\" 'd'",
            limits=Limits(cpuset="0"),
            disks=(*DOMU.disks, XenDisk("/i", readonly=True), XenDisk("/dev/l", block=True)),
            bridge="br-vperf",
            mac="00:16:3e:00:00:01",
        ),
    ],
    ids=["plain", "all"],
)
def test_libvirt_accepts_the_domain_xml(mode: str, domu: DomuConfig) -> None:
    """The library's schema and parser decide."""
    libvirt: Any = pytest.importorskip("libvirt", reason="libvirt-python is not installed")
    if not Path("/usr/share/libvirt/schemas/domain.rng").exists():
        pytest.skip("libvirt's schemas are not installed")
    connection = libvirt.open("test:///default")
    try:
        domain = connection.createXML(
            domain_xml(replace(domu, mode=mode)), libvirt.VIR_DOMAIN_START_VALIDATE
        )
        known = ElementTree.fromstring(domain.XMLDesc())
        domain.destroy()
    finally:
        connection.close()
    assert known.findtext("name") == domu.name
    assert known.findtext("os/cmdline") == domu.parameters
    assert attributes(known, "os/type")["machine"] == MODES[mode][1]
    assert len(known.findall("devices/disk")) == len(domu.disks)
    assert len(known.findall("devices/interface")) == bool(domu.bridge)
