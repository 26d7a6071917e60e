"""The QEMU command line of a host of a lab."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from pytest_vperf.lab import keys

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from pytest_vperf.lab.kinds import Kind

#: Names in the folder of a host's state. They are relative, and QEMU works in that folder: a path may have commas and
#: blanks, which mean something in QEMU's words, and may be too long for a socket's name.
DISK, KERNEL, INITRAMFS, HYPERVISOR = "disk", "vmlinuz", "initramfs", "xen"
CONSOLE, QMP, READY = "console.log", "qmp.sock", "ready.sock"
#: The name of the virtio-serial port on which the host says that it is ready (root/common/usr/lib/vperf/ready).
READY_PORT = "org.pytest-vperf.lab"
#: What every host's kernel is told. TERM is for systemd, which paints what it prints otherwise.
_KERNEL_LINE = (
    "root=/dev/vda",
    "net.ifnames=0",
    "apparmor=0",
    "random.trust_cpu=on",
    "systemd.unit=vperf-lab.target",
    "TERM=dumb",
)
#: An emulated processor speculates about nothing, so what defends against that only costs time: under Xen each system
#: call of dom0 would change page tables twice more, of which QEMU makes a slow affair.
_EMULATED_KERNEL_LINE = ("mitigations=off",)
_EMULATED_HYPERVISOR_LINE = ("spec-ctrl=no", "xpti=no", "pv-l1tf=no")


@dataclass(frozen=True)
class Machine:
    """The machine of a host.

    Attributes:
        kind: of host.
        accelerator: ``kvm`` or ``tcg``; QEMU never falls back from the one to the other.
        memory: MiB.
        vcpus: virtual CPUs.
        port: of 127.0.0.1, led to the host's SSH server.
    """

    kind: Kind
    accelerator: str
    memory: int
    vcpus: int
    port: int

    @property
    def name(self) -> str:
        """By which the process is found in a list of processes."""
        return process_name(self.kind.name)

    @property
    def cpu(self) -> str:
        """QEMU's CPU model."""
        return self.kind.cpu[self.accelerator]


def process_name(kind: str) -> str:
    """The name of the QEMU process of a kind of host; at most 15 characters (prctl(2), PR_SET_NAME)."""
    return f"vperf-lab-{kind}"


def links(kind: Kind, image: Path) -> dict[str, Path]:
    """What QEMU finds in the state folder, and where it is."""
    names = [DISK, KERNEL, INITRAMFS, *([HYPERVISOR] if kind.hypervisor else [])]
    return {name: image / name for name in names}


def command_line(qemu: str, machine: Machine) -> list[str]:
    """The arguments for QEMU, to be started in the folder of the host's state."""
    forward = f"hostfwd=tcp:127.0.0.1:{machine.port}-10.0.2.15:22"
    accelerator = f"accel={machine.accelerator}"
    kind = f"{machine.kind.machine},{accelerator},sata=off,smbus=off,usb=off,vmport=off"
    return [
        qemu,
        *("-name", f"{machine.name},process={machine.name}"),
        *("-nodefaults", "-no-user-config", "-no-reboot"),
        *("-display", "none"),
        *("-machine", kind),
        *("-cpu", machine.cpu),
        *("-smp", str(machine.vcpus)),
        *("-m", f"{machine.memory}M"),
        *_boot(machine),
        # What is written goes into a file without a name that ends with the process: the image is never changed.
        "-snapshot",
        *_disk("root", DISK),
        *_disk("keys", keys.DISK),
        # Nothing but what is led in: the host reaches neither this machine nor the world.
        *("-netdev", f"user,id=net,restrict=on,ipv6=off,{forward}"),
        *("-device", "virtio-net-pci,netdev=net,romfile="),
        *("-device", "virtio-rng-pci"),
        *("-device", "virtio-serial-pci"),
        *("-chardev", f"socket,id=ready,path={READY},server=on,wait=off"),
        *("-device", f"virtserialport,chardev=ready,name={READY_PORT}"),
        *("-serial", f"file:{CONSOLE}"),
        *("-qmp", f"unix:{QMP},server=on,wait=off"),
    ]


def _disk(name: str, file: str) -> Sequence[str]:
    drive = f"file={file},format=raw,if=none,id={name},cache=unsafe,discard=unmap"
    return ("-drive", drive, "-device", f"virtio-blk-pci,drive={name}")


def _boot(machine: Machine) -> Sequence[str]:
    kind, emulated = machine.kind, machine.accelerator == "tcg"
    console = "hvc0" if kind.hypervisor else "ttyS0"
    modules = (f"modules_load={name}" for name in kind.modules)
    spared = _EMULATED_KERNEL_LINE if emulated else ()
    line = " ".join([*_KERNEL_LINE, *spared, f"console={console}", *modules])
    if not kind.hypervisor:
        return ("-kernel", KERNEL, "-initrd", INITRAMFS, "-append", line)
    # Multiboot: the hypervisor is the kernel, and its modules are the kernel with its line, and the first root.
    first = " ".join([kind.hypervisor_line, *(_EMULATED_HYPERVISOR_LINE if emulated else ())])
    return (
        *("-kernel", HYPERVISOR, "-append", first),
        *("-initrd", f"{KERNEL} {line},{INITRAMFS}"),
    )
