"""Everything a pod's start needs that is made before the clock runs: kernel, initramfs, disk, firmware, QEMU."""

from __future__ import annotations

import functools
import subprocess
from dataclasses import dataclass
from typing import TYPE_CHECKING

from pytest_vperf.machine import cache
from pytest_vperf.machine.preflight import Readiness, find_program
from pytest_vperf.targets.base import Unavailable
from pytest_vperf.targets.kernel import modules
from pytest_vperf.targets.kernel.guest_kernel import GuestKernel, distribution_kernel, from_file
from pytest_vperf.targets.pod import firmware as firmwares
from pytest_vperf.targets.pod.command_line import MachineConfig
from pytest_vperf.targets.pod.disk import build_disk
from pytest_vperf.targets.pod.initramfs import build_initramfs

if TYPE_CHECKING:
    from pathlib import Path

    from pytest_vperf.targets.image import Rootfs
    from pytest_vperf.targets.network.card import Card

QEMU = "qemu-system-x86_64"


@dataclass(frozen=True)
class Assets:
    """The files a pod is started from.

    Attributes:
        qemu: path of the QEMU program.
        qemu_version: as it prints it.
        kernel: the guest kernel.
        initramfs: with the agent and that kernel's modules.
        disk: the container image as a disk.
        rootfs: what the disk was made of; the container target runs the same.
    """

    qemu: str
    qemu_version: str
    kernel: GuestKernel
    initramfs: Path
    disk: Path
    rootfs: Rootfs

    def config(
        self,
        accelerator: str,
        firmware: str,
        *,
        vcpus: int = 1,
        memory_mib: int = 512,
        machine: str = "q35",
        cpu: str = "",
        disks: tuple[tuple[str, str], ...] = (),
        card: Card | None = None,
    ) -> MachineConfig:
        """The machine for one pod.

        Raises:
            CannotStart: there is no firmware of that name.
            Unavailable: the firmware is not installed.
        """
        return MachineConfig(
            accelerator,
            firmwares.find(firmware).path,
            self.kernel.image,
            # Only a machine with a card pays for loading its driver.
            self.initramfs if card is None else build_initramfs(self.kernel, modules.NETWORK),
            self.disk,
            vcpus,
            memory_mib,
            machine,
            cpu,
            disks,
            card,
        )

    def details(self, config: MachineConfig, firmware: str) -> dict[str, str]:
        """What is recorded about a pod of this machine."""
        return {
            "accelerator": config.accelerator,
            "machine_type": config.machine,
            "cpu_model": config.cpu_model,
            "vcpus": str(config.vcpus),
            "memory": f"{config.memory_mib} MiB",
            "qemu": self.qemu_version,
            "firmware": firmware,
            "firmware_sha256": _sha256(config.firmware),
            "guest_kernel": self.kernel.release,
            "guest_kernel_sha256": self.kernel.sha256,
            "initramfs_sha256": _sha256(config.initramfs),
            "rootfs": self.rootfs.name,
            "rootfs_sha256": self.rootfs.sha256,
        }


@functools.lru_cache(maxsize=64)
def _sha256(path: Path) -> str:
    return cache.file_sha256(path)


def prepare(rootfs: Rootfs, guest_kernel: Path | None = None) -> Assets:
    """Build or find everything. Takes seconds the first time, and nothing is measured meanwhile.

    Raises:
        Unavailable: QEMU, a kernel, a compiler or squashfs-tools cannot be had; says how to get it.
        CannotStart: a file named by the user cannot be used; says why.
    """
    program = check_qemu()
    if not program.usable:
        raise Unavailable(program.why, remedy=program.remedy)
    kernel = from_file(guest_kernel) if guest_kernel else distribution_kernel()
    return Assets(
        program.why,
        qemu_version(program.why),
        kernel,
        build_initramfs(kernel),
        build_disk(rootfs.path, rootfs.sha256),
        rootfs,
    )


def check_qemu() -> Readiness:
    """Whether QEMU is installed; ``why`` is its path then."""
    path = find_program(QEMU)
    if path is None:
        return Readiness(
            "qemu", False, f"{QEMU} is not installed", "apt-get install qemu-system-x86"
        )
    return Readiness("qemu", True, path)


@functools.lru_cache(maxsize=4)
def qemu_version(path: str) -> str:
    """QEMU's version with its package's, as the first line of ``--version`` has it after "version"."""
    done = subprocess.run(
        [path, "--version"], capture_output=True, text=True, check=False, timeout=60
    )
    return done.stdout.partition("\n")[0].partition("version ")[2] or "unknown"
