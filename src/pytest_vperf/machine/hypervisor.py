"""Under which hypervisor this machine runs, from what the kernel shows in files: no program is called."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pytest_vperf.machine.procfile import first_line

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

#: What a guest's kernel uses for time; it is offered under one hypervisor only.
_CLOCKS = {"kvm-clock": "kvm", "xen": "xen", "hyperv": "hyperv"}

#: Beginnings of firmware tables' texts, lower case. A name says who built the machine, not what runs it now, so
#: clocks and flags come first.
_FIRMWARE = {
    "qemu": "qemu",
    "kvm": "kvm",
    "amazon ec2": "amazon",
    "google": "google",
    "microsoft corporation": "hyperv",
    "vmware": "vmware",
    "innotek": "virtualbox",
    "virtualbox": "virtualbox",
    "xen": "xen",
    "parallels": "parallels",
    "bochs": "bochs",
    "openstack": "openstack",
}


#: What the firmware says of the machine, the most telling first.
_FIELDS = ("product_name", "sys_vendor", "board_vendor", "bios_vendor")
#: The files that tell, below the root.
FILES = (
    "sys/hypervisor/type",
    "proc/device-tree/hypervisor/compatible",
    "sys/devices/system/clocksource/clocksource0/available_clocksource",
    *(f"sys/class/dmi/id/{field}" for field in _FIELDS),
    "sys/firmware/qemu_fw_cfg/rev",
)


def detect(root: Path, cpu: Mapping[str, str]) -> str:
    """The hypervisor's name; ``none`` on bare metal, ``unknown`` where there is one without a name.

    Args:
        root: where ``sys`` and ``proc`` are.
        cpu: the first processor's lines of ``/proc/cpuinfo``.
    """
    kind = first_line(root / "sys/hypervisor/type")
    if kind is not None:
        return kind.lower()
    clocks = clock_sources(root)
    for clock, name in _CLOCKS.items():
        if clock in clocks:
            return name
    flags = cpu.get("flags")
    if flags is not None and "hypervisor" not in flags.split():
        return "none"  # x86 has a flag for it, so the firmware's word is not needed
    tree = first_line(root / "proc/device-tree/hypervisor/compatible")
    if tree is not None:
        return tree.split(",")[-1]
    named = _by_firmware(root)
    if named is not None:
        return named
    if flags is not None:
        return "unknown"
    return "none" if firmware_vendor(root) is not None else "unknown"


def is_emulated(root: Path, cpu: Mapping[str, str]) -> bool:
    """Whether the processor is emulated in software (QEMU's TCG), as far as a guest can see it.

    A machine of QEMU that offers no paravirtual clock has no accelerator; QEMU's own processor models say TCG
    in their name. A guest of an emulated host cannot see it: whoever started that host has to say so.
    """
    if "tcg" in cpu.get("model name", "").lower().split():
        return True
    vendor = firmware_vendor(root)
    built_by_qemu = vendor == "qemu" or (root / "sys/firmware/qemu_fw_cfg").exists()
    hypervisor = "hypervisor" in cpu.get("flags", "").split()
    return built_by_qemu and hypervisor and not (clock_sources(root) & set(_CLOCKS))


def clock_sources(root: Path) -> frozenset[str]:
    """The kernel's available clock sources."""
    folder = root / "sys/devices/system/clocksource/clocksource0"
    return frozenset((first_line(folder / "available_clocksource") or "").split())


def firmware_vendor(root: Path) -> str | None:
    """The vendor of the machine as its firmware has it, lower case."""
    vendor = first_line(root / "sys/class/dmi/id/sys_vendor")
    return vendor.lower() if vendor is not None else None


def _by_firmware(root: Path) -> str | None:
    for field in _FIELDS:
        text = (first_line(root / "sys/class/dmi/id" / field) or "").lower()
        for beginning, name in _FIRMWARE.items():
            if text.startswith(beginning):
                return name
    return None
