"""A guest as libvirt's XML. Pure. Format: https://libvirt.org/formatdomain.html."""

from __future__ import annotations

from typing import TYPE_CHECKING
from xml.etree import ElementTree

from pytest_vperf.targets.guest.config import AGENT_PORT
from pytest_vperf.targets.limits import PERIOD
from pytest_vperf.targets.virt.metadata import add, metadata

if TYPE_CHECKING:
    from pytest_vperf.targets.guest.config import Boot, CardConfig, DiskConfig, GuestConfig

#: What a card can leave to its host (formatdomain, "Setting NIC driver-specific options").
_OFFLOADS = ("csum", "gso", "tso4", "tso6", "ecn", "ufo")
#: Models that are not names of processors (formatdomain, "CPU model and topology").
_MODES = ("host-passthrough", "host-model", "maximum")


def domain_xml(config: GuestConfig) -> str:
    """The description that libvirt starts the guest from."""
    domain = ElementTree.Element("domain", type=config.kind)
    add(domain, "name", config.name)
    domain.append(metadata(config.labels))
    add(domain, "memory", str(config.memory_mib), unit="MiB")
    vcpu = add(domain, "vcpu", str(config.vcpus))
    if config.limits.cpuset:
        vcpu.set("cpuset", config.limits.cpuset)
    if config.partition:
        add(add(domain, "resource"), "partition", config.partition)
    _limits(domain, config)
    _boot(domain, config)
    features = add(domain, "features")
    add(features, "acpi")
    add(features, "apic")
    _cpu(domain, config.cpu)
    # A kernel that dies reboots, and a machine that reboots is not the one that was started.
    for event in ("on_poweroff", "on_reboot", "on_crash"):
        add(domain, event, "destroy")
    _devices(domain, config)
    return ElementTree.tostring(domain, encoding="unicode")


def _limits(domain: ElementTree.Element, config: GuestConfig) -> None:
    limits = config.limits
    if limits.cpu_shares is None and limits.cpus is None:
        return
    tune = add(domain, "cputune")
    if limits.cpu_shares is not None:
        add(tune, "shares", str(limits.cpu_shares))
    if limits.cpus is not None:
        # Of the whole machine, the hypervisor's own threads included: what the same name means for a container.
        add(tune, "global_period", str(PERIOD))
        add(tune, "global_quota", str(limits.quota))
    if limits.cpuset:
        add(tune, "emulatorpin", cpuset=limits.cpuset)


def _boot(domain: ElementTree.Element, config: GuestConfig) -> None:
    boot = config.boot
    os = add(domain, "os")
    add(os, "type", "hvm", arch="x86_64", machine=config.machine)
    if boot.kernel:
        add(os, "kernel", boot.kernel)
        add(os, "initrd", boot.initramfs)
        add(os, "cmdline", boot.parameters)


def _cpu(domain: ElementTree.Element, cpu: str) -> None:
    if cpu in _MODES:
        add(domain, "cpu", mode=cpu)
        return
    element = add(domain, "cpu", mode="custom", match="exact")
    add(element, "model", cpu, fallback="forbid")


def _devices(domain: ElementTree.Element, config: GuestConfig) -> None:
    devices = add(domain, "devices")
    _disks(devices, config.boot, config.disks)
    if config.card is not None:
        _card(devices, config.card)
    serial = add(devices, "serial", type="pty")
    add(serial, "target", port="0")
    channel = add(devices, "channel", type="unix")
    add(channel, "target", type="virtio", name=AGENT_PORT)
    rng = add(devices, "rng", model="virtio")
    add(rng, "backend", "/dev/urandom", model="random")
    # What libvirt would add by itself, and nobody here uses.
    add(devices, "controller", type="usb", model="none")
    add(devices, "memballoon", model="none")


def _disks(devices: ElementTree.Element, boot: Boot, disks: tuple[DiskConfig, ...]) -> None:
    letters = iter("abcdefghijklmnopqrstuvwxyz")
    if boot.disk:
        root = add(devices, "disk", type="file", device="disk")
        # The machine's own disk is thrown away with it: nothing of it has to reach a disk of the host.
        add(root, "driver", name="qemu", type="qcow2", cache="unsafe")
        add(root, "source", file=boot.disk)
        add(root, "target", dev=f"vd{next(letters)}", bus="virtio")
    for each in disks:
        disk = add(devices, "disk", type="block", device="disk")
        # Past the host's page cache: the guest asks for the disk and gets the disk.
        add(disk, "driver", name="qemu", type="raw", cache="none", io="threads")
        add(disk, "source", dev=each.path)
        add(disk, "target", dev=f"vd{next(letters)}", bus="virtio")
        if each.tune:
            tune = add(disk, "iotune")
            for name, value in each.tune.items():
                add(tune, name, str(value))
        add(disk, "serial", each.serial)
    # Last, so that the others have the same names with and without it.
    if boot.boot_disk:
        disk = add(devices, "disk", type="file", device="disk")
        add(disk, "driver", name="qemu", type="raw", cache="unsafe")
        add(disk, "source", file=boot.boot_disk)
        add(disk, "target", dev=f"vd{next(letters)}", bus="virtio")
        add(disk, "readonly")
        add(disk, "boot", order="1")


def _card(devices: ElementTree.Element, card: CardConfig) -> None:
    interface = add(devices, "interface", type="bridge")
    add(interface, "source", bridge=card.bridge)
    if card.switch:
        add(interface, "virtualport", type=card.switch)
    add(interface, "mac", address=card.mac)
    add(interface, "model", type="virtio")
    driver = add(interface, "driver", name="vhost" if card.vhost else "qemu")
    if not card.offloads:
        add(driver, "host", **dict.fromkeys(_OFFLOADS, "off"))
    # Without its boot ROM, which the firmware would read; nothing boots from this network.
    add(interface, "rom", enabled="no")
