"""What a guest is made of."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping

    from pytest_vperf.targets.limits import Limits

#: The port of the agent: libvirt knows it by this name.
AGENT_PORT = "org.qemu.guest_agent.0"


@dataclass(frozen=True)
class CardConfig:
    """A virtio network card.

    Attributes:
        bridge: of the daemon's machine, that it is plugged into.
        mac: the link-layer address.
        vhost: the kernel of the daemon's machine moves the packets (vhost-net), and not QEMU.
        switch: ``openvswitch`` where the bridge is Open vSwitch's; empty: it is the kernel's.
        offloads: whether it may leave checksums, and taking long packets apart, to what is behind it.
    """

    bridge: str
    mac: str
    vhost: bool = False
    switch: str = ""
    offloads: bool = True


@dataclass(frozen=True)
class DiskConfig:
    """A further virtio disk.

    Attributes:
        path: a block device or a raw file of the daemon's machine.
        serial: by which the guest finds it.
        tune: caps in libvirt's names (``read_iops_sec``, …) and units.
    """

    path: str
    serial: str
    tune: Mapping[str, int] = field(default_factory=dict)


@dataclass(frozen=True)
class Boot:
    """What it boots from, all paths of the daemon's machine.

    Attributes:
        disk: the overlay with its root; empty: it has none, and its first process ends it.
        kernel: for a direct boot; empty: the firmware boots from ``boot_disk``.
        initramfs: likewise.
        parameters: of the kernel, for a direct boot.
        boot_disk: a disk with a boot loader; empty for a direct boot.
    """

    disk: str
    kernel: str = ""
    initramfs: str = ""
    parameters: str = ""
    boot_disk: str = ""


@dataclass(frozen=True)
class GuestConfig:
    """A guest.

    Attributes:
        name: of the domain.
        kind: libvirt's type: ``kvm``, or ``qemu`` where it is emulated.
        boot: what it boots from.
        vcpus: virtual CPUs.
        memory_mib: memory in MiB.
        machine: QEMU's machine type.
        cpu: ``host-passthrough``, ``maximum`` or the name of a model.
        limits: what it is held to on the daemon's machine.
        disks: further disks.
        card: its network card, if it has one.
        labels: by which a run finds its own again.
        partition: the control group that libvirt makes the guest's in; empty: its usual one.
    """

    name: str
    kind: str
    boot: Boot
    vcpus: int
    memory_mib: int
    machine: str
    cpu: str
    limits: Limits
    disks: tuple[DiskConfig, ...] = ()
    card: CardConfig | None = None
    labels: Mapping[str, str] = field(default_factory=dict)
    partition: str = ""
