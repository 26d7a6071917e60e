"""Disks that are plugged into a pod's running machine, and out of it, over QEMU's control socket.

A root bus of a q35 machine takes no devices while it runs (QEMU, docs/pcie.txt, "Hot-plug"), so such a machine gets a
PCI bridge, which costs its start something; the root bus of a pc machine takes them. In both the guest is told by
ACPI, which its kernel has built in. A PCI Express root port would do too; its own signals take Linux five seconds to
unplug (drivers/pci/hotplug/pciehp_ctrl.c, the button that may be pressed again).
"""

from __future__ import annotations

import os
from pathlib import PurePath
from typing import TYPE_CHECKING

from pytest_vperf.targets.pod.qmp import QmpError

if TYPE_CHECKING:
    from pytest_vperf.targets.pod.qmp import Qmp

#: By machine type: the bus, and the arguments that make it.
BUSES = {
    "pc": ("pci.0", ()),
    "q35": ("swap", ("-device", "pci-bridge,id=swap,chassis_nr=1,shpc=off")),
}
#: The image that a machine starts with.
FIRST = "image0"
#: What is in here for QEMU are descriptors that it was given (qemu(1), "-add-fd").
_SETS = PurePath("/dev/fdset")


def serial(name: str) -> str:
    """The serial number under which the guest knows a disk; virtio-blk has room for 20 characters."""
    return f"vperf-{name}"


def first_disk(machine: str, file: PurePath) -> list[str]:
    """QEMU's arguments for an image that can be unplugged.

    Args:
        machine: the machine type, one of `BUSES`.
        file: the image.
    """
    bus, made = BUSES[machine]
    path = str(file).replace(",", ",,")
    return [
        *made,
        "-blockdev",
        f"driver=raw,node-name={FIRST},read-only=on,file.driver=file,file.filename={path}",
        "-device",
        f"virtio-blk-pci,disable-legacy=on,id={FIRST},drive={FIRST},serial={serial(FIRST)},bus={bus}",
    ]


def hand_over(qmp: Qmp, file: PurePath) -> PurePath:
    """Give QEMU a file as a descriptor, where it may not open it by its path; the path that it has for it.

    Raises:
        QmpError: QEMU refused it, or is gone.
        OSError: the file cannot be opened.
    """
    descriptor = os.open(file, os.O_RDONLY | os.O_CLOEXEC)
    try:
        return _SETS / str(qmp.execute_with(descriptor, "add-fd")["fdset-id"])
    finally:
        os.close(descriptor)


def plug(qmp: Qmp, machine: str, name: str, file: PurePath) -> None:
    """Plug an image into a machine; the guest finds it some time later.

    Args:
        qmp: the machine's.
        machine: its type, one of `BUSES`.
        name: of the disk, which no other one has.
        file: the image.

    Raises:
        QmpError: QEMU refused it, or is gone; nothing was plugged in.
    """
    opened = {"driver": "file", "filename": str(file)}
    qmp.execute("blockdev-add", driver="raw", node_name=name, read_only=True, file=opened)
    if file.parent == _SETS:  # the disk has its own by now
        qmp.execute("remove-fd", fdset_id=int(file.name))
    try:
        qmp.execute(
            "device_add",
            driver="virtio-blk-pci",
            disable_legacy="on",
            id=name,
            drive=name,
            serial=serial(name),
            bus=BUSES[machine][0],
        )
    except QmpError:
        qmp.execute("blockdev-del", node_name=name)
        raise


def unplug(qmp: Qmp, name: str, timeout: float) -> None:
    """Take a disk out of a machine, and wait until the guest has let it go.

    Raises:
        QmpTimeout: it has not within ``timeout`` seconds.
        QmpError: QEMU refused, or is gone.
    """
    qmp.execute_until("DEVICE_DELETED", name, "device_del", timeout, id=name)
    qmp.execute("blockdev-del", node_name=name)
