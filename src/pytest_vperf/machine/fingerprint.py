"""The machine's fingerprint, which decides whether a published figure can be compared with one measured here.

Everything is read from files of the kernel and of the distribution; no program is called, nothing needs root.
What a machine does not show is ``unknown``, never a guess. That includes the hypervisor it runs under.
"""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from pytest_vperf.machine.procfile import content, first_line
from pytest_vperf.quantity import Quantity

if TYPE_CHECKING:
    from collections.abc import Mapping


#: Clock sources of guest kernels, each offered by one hypervisor only.
_CLOCKS = {"kvm-clock": "kvm", "xen": "xen", "hyperv": "hyperv"}

#: Beginnings of firmware strings, in lower case. They say who built the machine, not what runs it now, so clocks and
#: flags come first.
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


#: The firmware's descriptions of the machine, the most specific first.
_FIELDS = ("product_name", "sys_vendor", "board_vendor", "bios_vendor")
#: The files that are read, below the root.
HYPERVISOR_FILES = (
    "sys/hypervisor/type",
    "proc/device-tree/hypervisor/compatible",
    "sys/devices/system/clocksource/clocksource0/available_clocksource",
    *(f"sys/class/dmi/id/{field}" for field in _FIELDS),
    "sys/firmware/qemu_fw_cfg/rev",
)


def detect_hypervisor(root: Path, cpu: Mapping[str, str]) -> str:
    """The hypervisor's name; ``none`` on bare metal, ``unknown`` for one without a name.

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
        return "none"  # x86 has a flag for it, so the firmware is not needed
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

    A QEMU machine without a paravirtual clock has no accelerator; QEMU's own processor models have TCG in their name.
    A guest of an emulated host cannot see this: whoever started that host has to say so.
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
    """The machine's vendor according to its firmware, in lower case."""
    vendor = first_line(root / "sys/class/dmi/id/sys_vendor")
    return vendor.lower() if vendor is not None else None


def _by_firmware(root: Path) -> str | None:
    for field in _FIELDS:
        text = (first_line(root / "sys/class/dmi/id" / field) or "").lower()
        for beginning, name in _FIRMWARE.items():
            if text.startswith(beginning):
                return name
    return None


UNKNOWN = "unknown"
#: The files that are read, below the root: copied from another machine, they give that machine's fingerprint.
FILES = (
    *("proc/cpuinfo", "proc/meminfo", "proc/sys/kernel/osrelease", "proc/sys/kernel/arch"),
    *("proc/device-tree/model", "etc/os-release", "usr/lib/os-release", *HYPERVISOR_FILES),
)


@dataclass(frozen=True)
class Fingerprint:
    """A machine's identity.

    Attributes:
        cpu_model: the processor's name as the kernel prints it.
        microcode: its microcode revision, e.g. ``0x28``.
        logical_cpus: the number of online processors, hyper-threads included; ``None`` if unknown.
        memory: the kernel's memory (MemTotal), in GiB: less than is installed; ``None`` if unknown.
        kernel: its release, e.g. ``6.1.0-18-amd64``.
        hypervisor: ``none`` on bare metal, else ``kvm``, ``xen``, ``qemu``, …; ``unknown`` without a name.
        architecture: e.g. ``x86_64``.
        distribution: e.g. ``Debian GNU/Linux 12 (bookworm)``.
        emulated: whether the processor is emulated in software: times then say nothing about the hardware it names.
    """

    cpu_model: str
    microcode: str
    logical_cpus: int | None
    memory: Quantity | None
    kernel: str
    hypervisor: str
    architecture: str
    distribution: str
    emulated: bool

    def as_dict(self) -> dict[str, str]:
        """Every attribute as text, in order."""
        return {
            "cpu_model": self.cpu_model,
            "microcode": self.microcode,
            "logical_cpus": UNKNOWN if self.logical_cpus is None else str(self.logical_cpus),
            "memory": UNKNOWN if self.memory is None else str(self.memory),
            "kernel": self.kernel,
            "hypervisor": self.hypervisor,
            "architecture": self.architecture,
            "distribution": self.distribution,
            "emulated": "yes" if self.emulated else "no",
        }


def read(root: Path = Path("/")) -> Fingerprint:
    """The fingerprint of this machine, or of the one whose files are under ``root``."""
    processors = _processors(content(root / "proc/cpuinfo") or "")
    first = processors[0] if processors else {}
    return Fingerprint(
        cpu_model=_cpu_model(root, first),
        microcode=first.get("microcode") or UNKNOWN,
        logical_cpus=len(processors) or None,
        memory=_memory(content(root / "proc/meminfo") or ""),
        kernel=first_line(root / "proc/sys/kernel/osrelease") or UNKNOWN,
        hypervisor=detect_hypervisor(root, first),
        architecture=first_line(root / "proc/sys/kernel/arch") or os.uname().machine,
        distribution=_distribution(root),
        emulated=is_emulated(root, first),
    )


def _processors(cpuinfo: str) -> list[dict[str, str]]:
    """The ``key: value`` lines of each block that describes a processor."""
    found = []
    for block in cpuinfo.split("\n\n"):
        lines = (line.partition(":") for line in block.splitlines())
        fields = {key.strip(): value.strip() for key, colon, value in lines if colon}
        if "processor" in fields:
            found.append(fields)
    return found


def _cpu_model(root: Path, cpu: Mapping[str, str]) -> str:
    # Architectures other than x86 use another key, or the device tree.
    for key in ("model name", "cpu model", "cpu"):
        if cpu.get(key):
            return " ".join(cpu[key].split())
    return first_line(root / "proc/device-tree/model") or UNKNOWN


def _memory(meminfo: str) -> Quantity | None:
    for line in meminfo.splitlines():
        words = line.split()
        if (
            len(words) == 3
            and words[0] == "MemTotal:"
            and words[1].isdecimal()
            and words[2] == "kB"
        ):
            return Quantity(int(words[1]) / 2**20, "GiB")  # the kernel's kB are KiB
    return None


def _distribution(root: Path) -> str:
    for path in ("etc/os-release", "usr/lib/os-release"):
        for line in (content(root / path) or "").splitlines():
            key, equals, value = line.partition("=")
            if equals and key == "PRETTY_NAME":
                return value.strip().strip("\"'") or UNKNOWN
    return UNKNOWN
