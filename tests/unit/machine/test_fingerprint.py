"""Fingerprints of this machine, and of others from their files."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

import pytest

from pytest_vperf.machine.fingerprint import Fingerprint, read
from pytest_vperf.quantity import Quantity

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

XEON = """\
processor\t: {n}
vendor_id\t: GenuineIntel
model name\t: {model}
microcode\t: 0x28
flags\t\t: fpu vme {flags}
power management:

"""


def machine(folder: Path, files: Mapping[str, str]) -> Fingerprint:
    """The fingerprint of a machine with these files."""
    for name, text in files.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    return read(folder)


def cpuinfo(count: int, flags: str = "", model: str = "Intel(R) Xeon(R) CPU E3-1240 v3") -> str:
    return "".join(XEON.format(n=n, flags=flags, model=model) for n in range(count))


def test_a_bare_metal_machine_is_described(tmp_path: Path) -> None:
    found = machine(
        tmp_path,
        {
            "proc/cpuinfo": cpuinfo(8, model="Intel(R) Xeon(R) CPU E3-1240 v3 @ 3.40GHz"),
            "proc/meminfo": "MemTotal:       16310496 kB\nMemFree:        100 kB\n",
            "proc/sys/kernel/osrelease": "3.16.0-30-generic\n",
            "proc/sys/kernel/arch": "x86_64\n",
            "etc/os-release": 'NAME="Ubuntu"\nPRETTY_NAME="Ubuntu 14.04.2 LTS"\n',
            "sys/class/dmi/id/sys_vendor": "Supermicro\n",
            "sys/devices/system/clocksource/clocksource0/available_clocksource": "tsc hpet acpi_pm \n",
        },
    )
    assert found == Fingerprint(
        cpu_model="Intel(R) Xeon(R) CPU E3-1240 v3 @ 3.40GHz",
        microcode="0x28",
        logical_cpus=8,
        memory=Quantity(16310496 / 2**20, "GiB"),
        kernel="3.16.0-30-generic",
        hypervisor="none",
        architecture="x86_64",
        distribution="Ubuntu 14.04.2 LTS",
        emulated=False,
    )
    assert found.as_dict() == {
        "cpu_model": "Intel(R) Xeon(R) CPU E3-1240 v3 @ 3.40GHz",
        "microcode": "0x28",
        "logical_cpus": "8",
        "memory": "15.55 GiB",
        "kernel": "3.16.0-30-generic",
        "hypervisor": "none",
        "architecture": "x86_64",
        "distribution": "Ubuntu 14.04.2 LTS",
        "emulated": "no",
    }


def test_without_any_files_properties_are_unknown(tmp_path: Path) -> None:
    found = read(tmp_path).as_dict()
    assert found.pop("architecture") == os.uname().machine
    assert found.pop("emulated") == "no"
    assert set(found.values()) == {"unknown"}


@pytest.mark.parametrize(
    "text",
    [
        "",
        "\0\0\0",
        "processor",
        "model name\t:\n",
        ":\n\n:",
        "\x80\xff: x\n",
        "processor: 0\nflags",
    ],
)
def test_survives_files_of_another_form(tmp_path: Path, text: str) -> None:
    found = machine(
        tmp_path,
        dict.fromkeys(
            (
                "proc/cpuinfo",
                "proc/meminfo",
                "proc/sys/kernel/osrelease",
                "etc/os-release",
                "sys/class/dmi/id/sys_vendor",
                "sys/hypervisor/type",
            ),
            text,
        ),
    )
    assert found.memory is None
    assert found.cpu_model == "unknown"


@pytest.mark.parametrize("line", ["MemTotal: x kB", "MemTotal: 5 MB", "MemTotal:", "MemFree: 5 kB"])
def test_memory_of_another_form_is_unknown(tmp_path: Path, line: str) -> None:
    assert machine(tmp_path, {"proc/meminfo": line + "\n"}).memory is None


@pytest.mark.parametrize(
    ("files", "name"),
    [
        ({"clock": "kvm-clock tsc acpi_pm"}, "kvm"),
        ({"clock": "xen tsc"}, "xen"),
        ({"sys/hypervisor/type": "xen\n", "sys/class/dmi/id/sys_vendor": "QEMU\n"}, "xen"),
        ({"sys/class/dmi/id/sys_vendor": "QEMU\n"}, "qemu"),
        ({"sys/class/dmi/id/sys_vendor": "VMware, Inc.\n"}, "vmware"),
        ({"sys/class/dmi/id/product_name": "VirtualBox\n"}, "virtualbox"),
        ({"sys/class/dmi/id/sys_vendor": "Microsoft Corporation\n"}, "hyperv"),
        ({"sys/class/dmi/id/sys_vendor": "Google\n"}, "google"),
        ({"proc/device-tree/hypervisor/compatible": "linux,kvm\0"}, "kvm"),
        ({}, "unknown"),
    ],
)
def test_names_the_hypervisor(tmp_path: Path, files: dict[str, str], name: str) -> None:
    if clock := files.pop("clock", None):
        files["sys/devices/system/clocksource/clocksource0/available_clocksource"] = clock + "\n"
    found = machine(tmp_path, {"proc/cpuinfo": cpuinfo(1, "hypervisor"), **files})
    assert found.hypervisor == name


def test_hardware_of_a_hypervisors_vendor_is_not_virtual(tmp_path: Path) -> None:
    """Microsoft and Google build laptops, too; the processor's flag decides."""
    files = {
        "proc/cpuinfo": cpuinfo(1),
        "sys/class/dmi/id/sys_vendor": "Microsoft Corporation\n",
    }
    assert machine(tmp_path, files).hypervisor == "none"


def test_arm_without_a_hypervisor_flag_is_bare_metal(tmp_path: Path) -> None:
    files = {
        "proc/cpuinfo": "processor\t: 0\nCPU part\t: 0xd0c\n\nprocessor\t: 1\n\n",
        "proc/device-tree/model": "Raspberry Pi 4 Model B Rev 1.4\0",
        "sys/class/dmi/id/sys_vendor": "Ampere\n",
    }
    found = machine(tmp_path, files)
    assert found.cpu_model == "Raspberry Pi 4 Model B Rev 1.4"
    assert found.logical_cpus == 2
    assert found.hypervisor == "none"


@pytest.mark.parametrize(
    ("model", "clock", "emulated"),
    [
        ("QEMU TCG CPU version 2.5+", "tsc hpet acpi_pm", True),
        ("Intel Core i7 9xx (Nehalem Class Core i7)", "tsc hpet acpi_pm", True),
        ("Intel Core i7 9xx (Nehalem Class Core i7)", "kvm-clock tsc hpet acpi_pm", False),
    ],
)
def test_knows_an_emulated_processor(
    tmp_path: Path, model: str, clock: str, *, emulated: bool
) -> None:
    files = {
        "proc/cpuinfo": cpuinfo(1, "hypervisor", model),
        "sys/class/dmi/id/sys_vendor": "QEMU\n",
        "sys/devices/system/clocksource/clocksource0/available_clocksource": clock + "\n",
    }
    assert machine(tmp_path, files).emulated is emulated


def test_this_machines_fingerprint_matches_the_system() -> None:
    found = read()
    assert found.logical_cpus == os.cpu_count()
    assert found.kernel == os.uname().release
    assert found.architecture == os.uname().machine
    assert found.memory is not None
    pages = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    assert found.memory.to("B").value == pytest.approx(pages, rel=0.01)
    assert all(found.as_dict().values())
    assert read() == found
