"""The machine that pods are started on: this one, or one reached by SSH, see `pytest_vperf.targets.remote.pods`.

The firmware a pod boots with: qboot, made to boot a kernel and nothing else, or SeaBIOS, QEMU's default.
"""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path, PurePath
from typing import TYPE_CHECKING, Protocol

from pytest_vperf.machine import cache
from pytest_vperf.machine.preflight import Readiness
from pytest_vperf.targets.base import CannotStart, Unavailable
from pytest_vperf.targets.pod.qemu import LocalQemu, check_qemu, qemu_version
from pytest_vperf.targets.pod.sandbox import (
    KVM,
    confine,
    described,
    has_filter,
    kvm_groups,
    root_alone,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from pytest_vperf.machine.runs import Run
    from pytest_vperf.targets.control_group import Group
    from pytest_vperf.targets.limits import Limits
    from pytest_vperf.targets.pod.config import MachineConfig
    from pytest_vperf.targets.pod.qemu import QemuProcess


#: File names, and the package that has each in Debian and Ubuntu.
FIRMWARE_FILES = {
    "qboot": ("qboot.rom", "qemu-system-data"),
    "seabios": ("bios-256k.bin", "seabios"),
}
FOLDERS = ("/usr/share/qemu", "/usr/share/seabios", "/usr/local/share/qemu", "/usr/share/qemu-kvm")


@dataclass(frozen=True)
class Firmware:
    """A firmware file.

    Attributes:
        name: ``qboot`` or ``seabios``.
        path: the file given to QEMU, on its machine, so that it is known which one ran.
        sha256: of the file.
    """

    name: str
    path: PurePath
    sha256: str


def find_firmware(name: str) -> Firmware:
    """The firmware by its name.

    Raises:
        CannotStart: there is no firmware of that name.
        Unavailable: its file is not installed.
    """
    for path in map(Path, firmware_candidates(name)):
        if path.is_file():
            return Firmware(name, path, cache.file_sha256(path))
    file, package = FIRMWARE_FILES[name]
    raise Unavailable(
        f"firmware {name}: no {file} in {', '.join(FOLDERS)}", remedy=f"apt-get install {package}"
    )


def firmware_candidates(name: str) -> list[str]:
    """Where the file of a firmware may be, the usual place first.

    Raises:
        CannotStart: there is no firmware of that name.
    """
    if name not in FIRMWARE_FILES:
        raise CannotStart(
            f"unknown firmware {name!r}: choose one of {', '.join(sorted(FIRMWARE_FILES))}"
        )
    return [f"{folder}/{FIRMWARE_FILES[name][0]}" for folder in FOLDERS]


def check_firmware(name: str) -> Readiness:
    """Whether a firmware is installed."""
    try:
        return Readiness(f"firmware {name}", True, str(find_firmware(name).path))
    except Unavailable as error:
        return Readiness(f"firmware {name}", False, error.reason, error.remedy)


#: Why QEMU starts no pods on Xen, and no remedy.
BY_LIBVIRT = ("pods on Xen are started through libvirt, and not by QEMU", "")


class Place(Protocol):
    """A machine that has QEMU."""

    @property
    def mark(self) -> str:
        """What the names of pods there end with; empty for this machine."""
        ...

    @property
    def details(self) -> Mapping[str, str]:
        """For the record of every pod there."""
        ...

    def qemu(self) -> tuple[str, str]:
        """Path and version of QEMU there.

        Raises:
            Unavailable: it has none.
        """
        ...

    def sandbox(self, qemu: str) -> str:
        """What confines the QEMU of a pod there, for the record; see `pytest_vperf.targets.pod.sandbox`."""
        ...

    def firmware(self, name: str) -> Firmware:
        """A firmware there; see `pytest_vperf.targets.pod.place.find_firmware`.

        Raises:
            CannotStart: there is no firmware of that name.
            Unavailable: its file is not installed there.
        """
        ...

    def refusal(self, accelerator: str) -> tuple[str, str] | None:
        """A reason against an accelerator that needs no boot, with its remedy; ``None`` where a boot must tell."""
        ...

    def identity(self) -> tuple[str, ...]:
        """This boot of the machine and what it loaded: as long as it is the same, an accelerator goes on working."""
        ...

    def group(self, run: Run, limits: Limits, name: str) -> Group | None:
        """What holds a pod there to limits; ``None`` without limits.

        Raises:
            Unavailable: they are unavailable there.
            CannotStart: the system does not take one.
        """
        ...

    def bring(self, file: PurePath, what: str) -> PurePath:
        """Have a file of this machine there.

        Args:
            file: the file.
            what: it is, in a word, for its name there.

        Raises:
            TargetError: it cannot be brought there.
        """
        ...

    def ready(
        self, qemu: str, config: MachineConfig, run: Run, group: Group | None
    ) -> Callable[[], QemuProcess]:
        """Do all that can be done before the clock of a start runs; the function then starts QEMU.

        Raises:
            CannotConnect: the machine is gone.
            TargetError: a file cannot be brought there.
        """
        ...


class Here:
    """This machine.

    Args:
        shared: a group that all pods started here share; ``None``: each has one of its own, where it has limits.
    """

    mark = ""
    details: Mapping[str, str] = {}

    def __init__(self, shared: Group | None = None) -> None:
        self._shared = shared

    def qemu(self) -> tuple[str, str]:
        """Path and version of the QEMU that is installed."""
        program = check_qemu()
        if not program.usable:
            raise Unavailable(program.why, remedy=program.remedy)
        return program.why, qemu_version(program.why)

    def sandbox(self, qemu: str) -> str:
        """See `Place.sandbox`."""
        return described(has_filter(qemu), os.geteuid() == 0)

    def firmware(self, name: str) -> Firmware:
        """A firmware that is installed."""
        return find_firmware(name)

    def refusal(self, accelerator: str) -> tuple[str, str] | None:
        """See `Place.refusal`."""
        if accelerator == "xen":
            if not Path("/proc/xen/capabilities").exists():
                return "this host is no Xen dom0 (no /proc/xen/capabilities)", ""
            return BY_LIBVIRT
        if accelerator == "kvm":
            refused = kvm_refusal(KVM.exists(), os.access(KVM, os.R_OK | os.W_OK))
            if refused is None and os.geteuid() == 0 and kvm_groups() is None:
                return root_alone()
            return refused
        return None

    def identity(self) -> tuple[str, ...]:
        """See `Place.identity`."""
        boot = Path("/proc/sys/kernel/random/boot_id").read_text().strip()
        return boot, *sorted(module.name for module in Path("/sys/module").glob("kvm*"))

    def group(self, run: Run, limits: Limits, name: str) -> Group | None:
        """A control group of the run's.

        Raises:
            CannotStart: there are limits, and the group is one that several pods share.
        """
        if self._shared is not None:
            if limits:
                raise CannotStart(f"{name}: limits of its own, in a group that it shares")
            return self._shared
        if not limits:
            return None
        from pytest_vperf.targets.control_group import ControlGroup

        return ControlGroup(run, limits, name)

    def bring(self, file: PurePath, what: str) -> PurePath:
        """The file, which is here."""
        return file

    def ready(
        self, qemu: str, config: MachineConfig, run: Run, group: Group | None
    ) -> Callable[[], QemuProcess]:
        """Open its files, and choose its user."""
        sandbox = confine(qemu, config)
        return lambda: LocalQemu(qemu, config, run, group, sandbox)


HERE = Here()


def kvm_refusal(there: bool, permitted: bool) -> tuple[str, str] | None:
    """What stands against KVM without a boot, by its device.

    Args:
        there: ``/dev/kvm`` exists.
        permitted: the user may read and write it.
    """
    if not there:
        return "no /dev/kvm: no hardware virtualisation here, or its module is not loaded", (
            "modprobe kvm_intel or kvm_amd, after enabling virtualisation in the firmware"
        )
    if not permitted:
        return "no permission to use /dev/kvm", "usermod -aG kvm $USER, then log in again"
    return None
