"""The configuration of a pod's machine, whichever machine it is started on."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pathlib import PurePath

    from pytest_vperf.targets.network.card import Card


@dataclass(frozen=True)
class MachineConfig:
    """The configuration of a pod's machine.

    Attributes:
        accelerator: ``kvm`` or ``tcg``; QEMU never falls back from one to the other.
        firmware: the firmware file.
        kernel: the guest kernel.
        initramfs: with the agent.
        disk: the container image; ``None`` for no disk and no agent port (the benchmark's floor).
        vcpus: virtual CPUs.
        memory_mib: memory in MiB.
        machine: QEMU's machine type.
        cpu: QEMU's CPU model; empty for the host's under KVM, and all emulated features otherwise.
        disks: further disks: serial number and the host's device.
        card: its network card, if any.
        replaceable: whether the image can be unplugged and another one plugged in.
    """

    accelerator: str
    firmware: PurePath
    kernel: PurePath
    initramfs: PurePath
    disk: PurePath | None
    vcpus: int = 1
    memory_mib: int = 512
    machine: str = "q35"
    cpu: str = ""
    disks: tuple[tuple[str, str], ...] = ()
    card: Card | None = None
    replaceable: bool = False

    @property
    def descriptors(self) -> tuple[int, ...]:
        """The file descriptors that QEMU inherits for its network card."""
        return () if self.card is None else self.card.descriptors

    @property
    def cpu_model(self) -> str:
        """The CPU model given to QEMU."""
        return self.cpu or ("host" if self.accelerator == "kvm" else "max")
