"""What a domU is made of."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from pytest_vperf.targets.limits import Limits

if TYPE_CHECKING:
    from collections.abc import Mapping

#: How a machine is virtualised → libvirt's type of operating system and its machine type. ``pv`` needs no help of the
#: processor, the others do.
MODES = {"pv": ("linux", "xenpv"), "pvh": ("xenpvh", "xenpvh"), "hvm": ("hvm", "xenfv")}


@dataclass(frozen=True)
class XenDisk:
    """A disk.

    Attributes:
        path: of the daemon's machine.
        format: ``raw`` or ``qcow2``.
        readonly: whether the machine may only read it.
        block: whether it is a block device, and no file.
    """

    path: str
    format: str = "raw"
    readonly: bool = False
    block: bool = False


@dataclass(frozen=True)
class DomuConfig:
    """A machine on Xen.

    Attributes:
        name: of the domain.
        mode: a key of `MODES`.
        kernel: path of the daemon's machine.
        initramfs: likewise.
        parameters: of the kernel.
        disks: in the order in which it sees them: ``xvda``, ``xvdb``, …
        vcpus: virtual CPUs.
        memory_mib: memory in MiB.
        limits: what it is held to.
        bridge: that its network card is plugged into; empty: it has none.
        mac: of its card.
        labels: by which a run finds its own again.
    """

    name: str
    mode: str
    kernel: str
    initramfs: str
    parameters: str
    disks: tuple[XenDisk, ...]
    vcpus: int
    memory_mib: int
    limits: Limits = field(default_factory=Limits)
    bridge: str = ""
    mac: str = ""
    labels: Mapping[str, str] = field(default_factory=dict)
