"""A machine on Xen as libvirt's XML. Pure. Format: https://libvirt.org/drvxen.html, formatdomain.html."""

from __future__ import annotations

from typing import TYPE_CHECKING
from xml.etree import ElementTree

from pytest_vperf.targets.domu.config import MODES
from pytest_vperf.targets.virt.metadata import add, metadata

if TYPE_CHECKING:
    from pytest_vperf.targets.domu.config import DomuConfig, XenDisk


def domain_xml(config: DomuConfig) -> str:
    """The description that libvirt starts the machine from."""
    system, machine = MODES[config.mode]
    domain = ElementTree.Element("domain", type="xen")
    add(domain, "name", config.name)
    domain.append(metadata(config.labels))
    add(domain, "memory", str(config.memory_mib), unit="MiB")
    vcpu = add(domain, "vcpu", str(config.vcpus))
    if config.limits.cpuset:
        vcpu.set("cpuset", config.limits.cpuset)
        # Xen's driver binds those processors alone that are named one by one.
        tune = add(domain, "cputune")
        for number in range(config.vcpus):
            add(tune, "vcpupin", vcpu=str(number), cpuset=config.limits.cpuset)
    os = add(domain, "os")
    add(os, "type", system, arch="x86_64", machine=machine)
    add(os, "kernel", config.kernel)
    add(os, "initrd", config.initramfs)
    add(os, "cmdline", config.parameters)
    # A kernel that dies reboots, and a machine that reboots is not the one that was started.
    for event in ("on_poweroff", "on_reboot", "on_crash"):
        add(domain, event, "destroy")
    devices = add(domain, "devices")
    for letter, disk in zip("abcdefghijklmnopqrstuvwxyz", config.disks, strict=False):
        _disk(devices, f"xvd{letter}", disk)
    if config.bridge:
        interface = add(devices, "interface", type="bridge")
        add(interface, "source", bridge=config.bridge)
        add(interface, "mac", address=config.mac)
    console = add(devices, "console", type="pty")
    add(console, "target", type="xen", port="0")
    return ElementTree.tostring(domain, encoding="unicode")


def _disk(devices: ElementTree.Element, name: str, disk: XenDisk) -> None:
    element = add(devices, "disk", type="block" if disk.block else "file", device="disk")
    # Xen's own back end in the host's kernel where it can; only QEMU's knows overlays.
    driver = "qemu" if disk.format == "qcow2" else "phy"
    add(element, "driver", name=driver, type=disk.format)
    add(element, "source", **{"dev" if disk.block else "file": disk.path})
    add(element, "target", dev=name, bus="xen")
    if disk.readonly:
        add(element, "readonly")
