"""All that a pod's start needs and that is prepared before it is timed: kernel, initramfs, disk, firmware, QEMU."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from pytest_vperf.machine import cache
from pytest_vperf.targets.base import Unavailable
from pytest_vperf.targets.kernel import guest_kernel as modules
from pytest_vperf.targets.kernel.guest_kernel import GuestKernel, distribution_kernel, from_file
from pytest_vperf.targets.pod import qemu as hotplug
from pytest_vperf.targets.pod.config import MachineConfig
from pytest_vperf.targets.pod.disk import build_disk, build_initramfs
from pytest_vperf.targets.pod.place import HERE

if TYPE_CHECKING:
    from pathlib import Path

    from pytest_vperf.targets.image.rootfs import Rootfs
    from pytest_vperf.targets.network.card import Card
    from pytest_vperf.targets.pod.place import Place


@dataclass(frozen=True)
class Assets:
    """The files a pod is started from.

    Attributes:
        qemu: path of the QEMU program on the machine of the pods.
        qemu_version: as QEMU prints it.
        kernel: the guest kernel.
        initramfs: with the agent and that kernel's modules.
        disk: the container image as a disk.
        rootfs: the image that the disk was made from; containers run the same one.
        place: the machine that pods are started on.
    """

    qemu: str
    qemu_version: str
    kernel: GuestKernel
    initramfs: Path
    disk: Path
    rootfs: Rootfs
    place: Place = HERE

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
        replaceable: bool = False,
    ) -> MachineConfig:
        """The configuration of one pod's machine.

        Raises:
            CannotStart: there is no firmware of that name.
            Unavailable: the firmware is not installed, or disks cannot be plugged into such a machine.
        """
        if replaceable and machine not in hotplug.BUSES:
            raise Unavailable(
                f"a machine of QEMU's type {machine} has no bus that disks can be plugged into",
                remedy=f"machine= one of {', '.join(hotplug.BUSES)}",
            )
        return MachineConfig(
            accelerator,
            self.place.firmware(firmware).path,
            self.kernel.image,
            # Only a machine with a card pays for loading its driver.
            self.initramfs
            if card is None
            else build_initramfs(self.kernel, modules.NETWORK_MODULES),
            self.disk,
            vcpus,
            memory_mib,
            machine,
            cpu,
            disks,
            card,
            replaceable,
        )

    def details(self, config: MachineConfig, firmware: str) -> dict[str, str]:
        """The facts recorded about a pod with this machine."""
        return {
            "accelerator": config.accelerator,
            "machine_type": config.machine,
            "cpu_model": config.cpu_model,
            "vcpus": str(config.vcpus),
            "memory": f"{config.memory_mib} MiB",
            "qemu": self.qemu_version,
            "qemu_path": self.qemu,
            "sandbox": self.place.sandbox(self.qemu),
            "firmware": firmware,
            "firmware_sha256": self.place.firmware(firmware).sha256,
            "guest_kernel": self.kernel.release,
            "guest_kernel_sha256": self.kernel.sha256,
            "initramfs_sha256": cache.kept_sha256(config.initramfs),
            **({"replaceable": "yes"} if config.replaceable else {}),
            "rootfs": self.rootfs.name,
            "rootfs_sha256": self.rootfs.sha256,
            **self.place.details,
        }


def prepare(rootfs: Rootfs, guest_kernel: Path | None = None, place: Place = HERE) -> Assets:
    """Build or find all assets. Takes seconds the first time; not called while measuring.

    Args:
        rootfs: the pods' image.
        guest_kernel: a file; ``None`` takes the distribution's.
        place: where pods are started.

    Raises:
        Unavailable: QEMU, a kernel, a compiler or squashfs-tools is missing; says how to get it.
        CannotStart: a file given by the user is unusable; says why.
    """
    qemu, version = place.qemu()
    kernel = from_file(guest_kernel) if guest_kernel else distribution_kernel()
    return Assets(
        qemu,
        version,
        kernel,
        build_initramfs(kernel),
        build_disk(rootfs.path, rootfs.sha256),
        rootfs,
        place,
    )
