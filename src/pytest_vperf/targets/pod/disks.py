"""Disks of the run in a pod: further virtio disks of its machine, put where the container finds them."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pytest_vperf.targets.base import CannotStart, CommandFailed

if TYPE_CHECKING:
    from collections.abc import Sequence

    from pytest_vperf.targets.disks import Disk
    from pytest_vperf.targets.pod.pod import Pod

#: Finds the disk by the serial number that QEMU gave it (virtio-blk shows it as block/NAME/serial), makes its device,
#: and mounts its file system where it has one. Words: serial, path, kind of file system or nothing.
_PUT = """
for entry in /sys/block/*; do
    if [ "$(cat "$entry/serial" 2>/dev/null)" = "$1" ]; then
        numbers=$(cat "$entry/dev")
        node=$2
        if [ -n "$3" ]; then node=/dev/$1; fi
        mknod "$node" b "${numbers%:*}" "${numbers#*:}" || exit 1
        if [ -z "$3" ]; then exit 0; fi
        mkdir -p "$2" && mount -o nosuid,nodev -t "$3" "$node" "$2" && exit 0
        exit 1
    fi
done
echo "no disk has the serial number $1" >&2
exit 1
"""


def serial(disk: Disk) -> str:
    """The serial number under which the guest knows a disk; virtio-blk has room for 20 characters."""
    return f"vperf-{disk.name}"


def put_in_place(pod: Pod, disks: Sequence[Disk]) -> None:
    """Make the devices in the pod's container, and mount file systems.

    Raises:
        CannotStart: one is not there, or cannot be mounted; with the guest's words.
    """
    for disk in disks:
        try:
            pod.run(["sh", "-c", _PUT, "sh", serial(disk), disk.inside, disk.format])
        except CommandFailed as error:
            words = error.completed.stderr.decode("utf-8", "replace").strip()[-300:]
            raise CannotStart(
                f"{pod.name}: {disk.name} cannot be put at {disk.inside}: {words}", target=pod.name
            ) from error
