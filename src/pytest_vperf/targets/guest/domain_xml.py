"""A guest as libvirt's XML. Pure. Format: https://libvirt.org/formatdomain.html."""

from __future__ import annotations

from typing import TYPE_CHECKING
from xml.etree import ElementTree

from pytest_vperf.targets.guest.config import AGENT_PORT
from pytest_vperf.targets.limits import PERIOD

if TYPE_CHECKING:
    from collections.abc import Mapping

    from pytest_vperf.targets.guest.config import Boot, CardConfig, DiskConfig, GuestConfig

#: The namespace of our labels in a domain's metadata.
NAMESPACE = "urn:pytest-vperf"
#: Models that are not names of processors (formatdomain, "CPU model and topology").
_MODES = ("host-passthrough", "host-model", "maximum")


def domain_xml(config: GuestConfig) -> str:
    """The description that libvirt starts the guest from."""
    domain = ElementTree.Element("domain", type=config.kind)
    _add(domain, "name", config.name)
    domain.append(metadata(config.labels))
    _add(domain, "memory", str(config.memory_mib), unit="MiB")
    vcpu = _add(domain, "vcpu", str(config.vcpus))
    if config.limits.cpuset:
        vcpu.set("cpuset", config.limits.cpuset)
    _limits(domain, config)
    _boot(domain, config)
    features = _add(domain, "features")
    _add(features, "acpi")
    _add(features, "apic")
    _cpu(domain, config.cpu)
    # A kernel that dies reboots, and a machine that reboots is not the one that was started.
    for event in ("on_poweroff", "on_reboot", "on_crash"):
        _add(domain, event, "destroy")
    _devices(domain, config)
    return ElementTree.tostring(domain, encoding="unicode")


def metadata(labels: Mapping[str, str]) -> ElementTree.Element:
    """The element that says whose machine it is."""
    element = ElementTree.Element("metadata")
    run = ElementTree.SubElement(element, f"{{{NAMESPACE}}}run")
    for name, value in labels.items():
        run.set(name.rpartition(".")[2], value)
    return element


def _limits(domain: ElementTree.Element, config: GuestConfig) -> None:
    limits = config.limits
    if limits.cpu_shares is None and limits.cpus is None:
        return
    tune = _add(domain, "cputune")
    if limits.cpu_shares is not None:
        _add(tune, "shares", str(limits.cpu_shares))
    if limits.cpus is not None:
        # Of the whole machine, the hypervisor's own threads included: what the same name means for a container.
        _add(tune, "global_period", str(PERIOD))
        _add(tune, "global_quota", str(limits.quota))
    if limits.cpuset:
        _add(tune, "emulatorpin", cpuset=limits.cpuset)


def _boot(domain: ElementTree.Element, config: GuestConfig) -> None:
    boot = config.boot
    os = _add(domain, "os")
    _add(os, "type", "hvm", arch="x86_64", machine=config.machine)
    if boot.loader:
        _add(os, "loader", boot.loader, readonly="yes", type="rom")
    if boot.kernel:
        _add(os, "kernel", boot.kernel)
        _add(os, "initrd", boot.initramfs)
        _add(os, "cmdline", boot.parameters)


def _cpu(domain: ElementTree.Element, cpu: str) -> None:
    if cpu in _MODES:
        _add(domain, "cpu", mode=cpu)
        return
    element = _add(domain, "cpu", mode="custom", match="exact")
    _add(element, "model", cpu, fallback="forbid")


def _devices(domain: ElementTree.Element, config: GuestConfig) -> None:
    devices = _add(domain, "devices")
    _disks(devices, config.boot, config.disks)
    if config.card is not None:
        _card(devices, config.card)
    serial = _add(devices, "serial", type="pty")
    _add(serial, "target", port="0")
    channel = _add(devices, "channel", type="unix")
    _add(channel, "target", type="virtio", name=AGENT_PORT)
    rng = _add(devices, "rng", model="virtio")
    _add(rng, "backend", "/dev/urandom", model="random")
    # What libvirt would add by itself, and nobody here uses.
    _add(devices, "controller", type="usb", model="none")
    _add(devices, "memballoon", model="none")


def _disks(devices: ElementTree.Element, boot: Boot, disks: tuple[DiskConfig, ...]) -> None:
    letters = iter("abcdefghijklmnopqrstuvwxyz")
    if boot.disk:
        root = _add(devices, "disk", type="file", device="disk")
        # The machine's own disk is thrown away with it: nothing of it has to reach a disk of the host.
        _add(root, "driver", name="qemu", type="qcow2", cache="unsafe")
        _add(root, "source", file=boot.disk)
        _add(root, "target", dev=f"vd{next(letters)}", bus="virtio")
    if boot.boot_disk:
        disk = _add(devices, "disk", type="file", device="disk")
        _add(disk, "driver", name="qemu", type="raw", cache="unsafe")
        _add(disk, "source", file=boot.boot_disk)
        _add(disk, "target", dev=f"vd{next(letters)}", bus="virtio")
        _add(disk, "readonly")
        _add(disk, "boot", order="1")
    for each in disks:
        disk = _add(devices, "disk", type="block", device="disk")
        # Past the host's page cache: the guest asks for the disk and gets the disk.
        _add(disk, "driver", name="qemu", type="raw", cache="none", io="threads")
        _add(disk, "source", dev=each.path)
        _add(disk, "target", dev=f"vd{next(letters)}", bus="virtio")
        if each.tune:
            tune = _add(disk, "iotune")
            for name, value in each.tune.items():
                _add(tune, name, str(value))
        _add(disk, "serial", each.serial)


def _card(devices: ElementTree.Element, card: CardConfig) -> None:
    kind = "network" if card.network else "bridge"
    interface = _add(devices, "interface", type=kind)
    _add(interface, "source", **{kind: card.network or card.bridge})
    _add(interface, "mac", address=card.mac)
    _add(interface, "model", type="virtio")
    _add(interface, "driver", name="vhost" if card.vhost else "qemu")
    # Without its boot ROM, which the firmware would read; nothing boots from this network.
    _add(interface, "rom", enabled="no")


def _add(
    parent: ElementTree.Element, tag: str, text: str = "", **attributes: str
) -> ElementTree.Element:
    element = ElementTree.SubElement(parent, tag, attributes)
    if text:
        element.text = text
    return element
