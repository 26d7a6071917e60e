"""The machine that pods are started on: this one, or one reached by SSH, see `pytest_vperf.targets.remote.pods`.

Firmware: qboot, which can only boot a kernel directly, or SeaBIOS, QEMU's default.
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
        path: the file given to QEMU, on its machine, rather than left to QEMU's search path.
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
    """Paths at which the firmware's file may be, the usual one first.

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

    mark: str
    """The suffix of the names of pods there; empty for this machine."""

    @property
    def details(self) -> Mapping[str, str]:
        """For the record of every pod there."""
        ...

    def qemu(self) -> tuple[str, str]:
        """The path and version of QEMU there.

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
        """Why an accelerator is unavailable, with a remedy, as far as it shows without a boot; otherwise ``None``."""
        ...

    def identity(self) -> tuple[str, ...]:
        """The machine's boot and loaded modules: as long as they are the same, a probe's answer holds."""
        ...

    def group(self, run: Run, limits: Limits, name: str) -> Group | None:
        """The control group for a pod with limits; ``None`` without limits.

        Raises:
            Unavailable: limits are unavailable there.
            CannotStart: the system rejects one.
        """
        ...

    def bring(self, file: PurePath, what: str) -> PurePath:
        """Make a file of this machine available there; return its path.

        Args:
            file: the file.
            what: what it is, in a word, for its name there.

        Raises:
            TargetError: it cannot be sent there.
        """
        ...

    def ready(
        self, qemu: str, config: MachineConfig, run: Run, group: Group | None
    ) -> Callable[[], QemuProcess]:
        """Prepare all of a start that need not be timed; return a function that starts QEMU.

        Raises:
            CannotConnect: the machine is gone.
            TargetError: a file cannot be sent there.
        """
        ...


class Here:
    """This machine.

    Args:
        shared: a control group for all pods started here; ``None`` if each gets its own when it has limits.
        qemu: the program; empty for the installed one.
        firmware: a file instead of whichever firmware is asked for.
        mark: the suffix of the names of pods.
    """

    details: Mapping[str, str] = {}

    def __init__(
        self,
        shared: Group | None = None,
        *,
        qemu: str = "",
        firmware: Path | None = None,
        mark: str = "",
    ) -> None:
        self.mark = mark
        self._shared = shared
        self._qemu = qemu
        self._firmware = firmware

    def using(self, *, qemu: Path | str | None, firmware: Path | str | None) -> Here:
        """This machine, with another QEMU or firmware; ``None`` for the same."""
        return Here(
            self._shared,
            qemu=str(Path(qemu).absolute()) if qemu is not None else self._qemu,
            firmware=Path(firmware).absolute() if firmware is not None else self._firmware,
            mark=self.mark,
        )

    def sharing(self, group: Group | None) -> Here:
        """This machine, with pods in one shared control group; ``None`` for none."""
        return Here(group, qemu=self._qemu, firmware=self._firmware, mark=self.mark)

    def qemu(self) -> tuple[str, str]:
        """The path and version of the QEMU that was named, else of the installed one."""
        if self._qemu:
            return self._qemu, qemu_version(self._qemu)
        program = check_qemu()
        if not program.usable:
            raise Unavailable(program.why, remedy=program.remedy)
        return program.why, qemu_version(program.why)

    def sandbox(self, qemu: str) -> str:
        """See `Place.sandbox`."""
        return described(has_filter(qemu), os.geteuid() == 0)

    def firmware(self, name: str) -> Firmware:
        """The firmware that was named, whatever a test asks for; else an installed one."""
        if self._firmware is not None:
            return Firmware(name, self._firmware, cache.file_sha256(self._firmware))
        return find_firmware(name)

    def refusal(self, accelerator: str) -> tuple[str, str] | None:
        """See `Place.refusal`."""
        if accelerator == "xen":
            if not Path("/proc/xen/capabilities").exists():
                return "this host is not a Xen dom0 (no /proc/xen/capabilities)", ""
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
        """A control group for a pod; ``None`` without limits.

        Raises:
            CannotStart: there are limits, but the group is shared.
        """
        if self._shared is not None:
            if limits:
                raise CannotStart(
                    f"{name}: a pod in a shared control group cannot have limits of its own"
                )
            return self._shared
        if not limits:
            return None
        from pytest_vperf.targets.control_group import ControlGroup

        return ControlGroup(run, limits, name)

    def bring(self, file: PurePath, what: str) -> PurePath:
        """Return the file unchanged: it is here already."""
        return file

    def ready(
        self, qemu: str, config: MachineConfig, run: Run, group: Group | None
    ) -> Callable[[], QemuProcess]:
        """Confine QEMU: open its files and choose its user."""
        sandbox = confine(qemu, config)
        return lambda: LocalQemu(qemu, config, run, group, sandbox)


HERE = Here()


def kvm_refusal(there: bool, permitted: bool) -> tuple[str, str] | None:
    """Why KVM is unavailable, with a remedy, judging by its device; ``None`` if only a boot can tell.

    Args:
        there: whether ``/dev/kvm`` exists.
        permitted: whether the user may read and write it.
    """
    if not there:
        return "no /dev/kvm: no hardware virtualisation here, or its module is not loaded", (
            "modprobe kvm_intel or kvm_amd, after enabling virtualisation in the firmware"
        )
    if not permitted:
        return "no permission to use /dev/kvm", "usermod -aG kvm $USER, then log in again"
    return None
