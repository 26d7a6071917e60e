"""The QEMU command line of a pod, in one place: the start, the probe and the benchmark's floor share it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from pytest_vperf.targets.pod import hotplug

if TYPE_CHECKING:
    from pathlib import PurePath

    from pytest_vperf.targets.network.card import Card

#: The name of the virtio-serial port to the agent.
AGENT_PORT = "org.pytest-vperf.agent"

#: What the guest kernel is told. Each entry saves a start time that has nothing to do with what is measured, or
#: makes an event visible (Linux documentation, admin-guide/kernel-parameters):
KERNEL_PARAMETERS = (
    # "debug" with "earlyprintk" makes the kernel's first instructions print a line; "quiet" between them, because
    # their order counts, that nothing else is printed but a panic.
    "debug",
    "quiet",
    "earlyprintk=ttyS0",
    "console=ttyS0",
    # A dead kernel ends the machine at once (QEMU has -no-reboot), and the host sees it.
    "panic=-1",
    "reboot=t",
    # No probing for keyboards, serial ports, timers and buses that this machine is known (not) to have.
    "i8042.noaux",
    "i8042.nopnp",
    "i8042.dumbkbd",
    "8250.nr_uarts=1",
    "pci=lastbus=0",
    "tsc=reliable",
    "no_timer_check",
    # No self-tests, no rewriting of locked instructions, no waiting for quiet CPUs at boot.
    "cryptomgr.notests",
    "noreplace-smp",
    "rcupdate.rcu_expedited=1",
    "random.trust_cpu=on",
)


@dataclass(frozen=True)
class MachineConfig:
    """What a pod's machine is made of.

    Attributes:
        accelerator: ``kvm`` or ``tcg``; QEMU never falls back from the one to the other.
        firmware: the firmware file.
        kernel: the guest kernel.
        initramfs: its first root.
        disk: the container image; ``None``: no disk and no agent port (the benchmark's floor).
        vcpus: virtual CPUs.
        memory_mib: memory in MiB.
        machine: QEMU's machine type.
        cpu: QEMU's CPU model; empty: the host's under KVM, everything that TCG can emulate otherwise.
        disks: further disks, each a serial number and the host's device.
        card: its network card, if it has one.
        replaceable: the image can be unplugged, and another one plugged in.
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
        """What QEMU inherits for its network card."""
        return () if self.card is None else self.card.descriptors

    @property
    def cpu_model(self) -> str:
        """The CPU model given to QEMU."""
        return self.cpu or ("host" if self.accelerator == "kvm" else "max")


@dataclass(frozen=True)
class Channels:
    """The sockets that QEMU has its channels on, each as QEMU's option ``-chardev socket`` names one.

    ``fd=NUMBER`` is a connected one that it inherits, ``path=FILE`` one that it connects to.
    """

    qmp: str
    console: str
    agent: str


def command_line(qemu: str, config: MachineConfig, channels: Channels, name: str) -> list[str]:
    """The arguments for QEMU. The machine is created stopped (``-S``); QMP's ``cont`` lets it go."""
    argv = [
        qemu,
        *("-name", name),
        *("-nodefaults", "-no-user-config", "-no-reboot", "-S"),
        *("-display", "none"),
        *("-machine", _machine(config)),
        *("-cpu", config.cpu_model),
        *("-smp", str(config.vcpus)),
        *("-m", f"{config.memory_mib}M"),
        *("-bios", str(config.firmware)),
        *("-kernel", str(config.kernel)),
        *("-initrd", str(config.initramfs)),
        *("-append", " ".join(KERNEL_PARAMETERS)),
        *("-chardev", f"socket,id=qmp,{channels.qmp}"),
        *("-mon", "chardev=qmp,mode=control"),
        *("-chardev", f"socket,id=console,{channels.console}"),
        *("-serial", "chardev:console"),
    ]
    if config.disk is not None:
        argv += [
            *("-device", "virtio-serial-pci,disable-legacy=on,max_ports=2"),
            *("-chardev", f"socket,id=agent,{channels.agent}"),
            *("-device", f"virtserialport,chardev=agent,name={AGENT_PORT}"),
        ]
        if config.replaceable:
            argv += hotplug.first_disk(config.machine, config.disk)
        else:
            disk = str(config.disk).replace(",", ",,")
            argv += [
                *("-drive", f"file={disk},format=raw,if=none,id=image,read-only=on"),
                *("-device", "virtio-blk-pci,disable-legacy=on,drive=image"),
            ]
    for serial, device in config.disks:
        # Past the host's page cache, as the loop device itself is: the guest asks for the disk and gets the disk.
        # For writing from the first, so that one descriptor is enough where it is opened by its descriptor.
        opened = f"file.driver=host_device,file.filename={device},format=raw,auto-read-only=off"
        drive = f"{opened},if=none,id={serial},cache=none,aio=threads"
        argv += [
            *("-drive", drive),
            *("-device", f"virtio-blk-pci,disable-legacy=on,drive={serial},serial={serial}"),
        ]
    if config.card is not None:
        argv += config.card.arguments()
    return argv


def _machine(config: MachineConfig) -> str:
    kind = f"{config.machine},accel={config.accelerator}"
    if config.machine == "q35":
        # A pod has no use for a SATA controller, an SMBus or VMware's port; the kernel would look for each.
        kind += ",sata=off,smbus=off,vmport=off,usb=off"
    return kind
