"""Disks of the run in a whole machine: lent to it, found in it, and put where tests expect them."""

from __future__ import annotations

from contextlib import ExitStack
from typing import TYPE_CHECKING

from pytest_vperf.targets.base import CannotStart, CommandFailed
from pytest_vperf.targets.virt.machine_disks import MachineDisk

if TYPE_CHECKING:
    from collections.abc import Sequence

    from pytest_vperf.targets.base import Target
    from pytest_vperf.targets.disks import Disk

#: Makes a disk's path in the machine: of the device, or of the mounted file system. Words: device, path, file system.
_PUT = """
if [ -z "$3" ]; then exec ln -s "$1" "$2"; fi
mkdir -p "$2" && exec mount -o nosuid,nodev -t "$3" "$1" "$2"
"""


def check_place(disks: Sequence[Disk], target: str, *, remote: bool) -> None:
    """Make sure that disks are on the machine's host.

    Raises:
        CannotStart: one is on another machine; says how to make one.
    """
    for disk in disks:
        if isinstance(disk, MachineDisk) != remote:
            where = "another machine" if isinstance(disk, MachineDisk) else "this machine"
            raise CannotStart(
                f"{disk.name} is on {where}, which {target} is not: make it with machines.disks.make(…), where"
                " machines is the fixture that starts it",
                target=target,
            )


def lend(disks: Sequence[Disk], target: str) -> ExitStack:
    """Leave disks to a machine; what is returned gives them back when it is closed.

    Raises:
        CannotStart: one is in use.
    """
    with ExitStack() as undo:
        for disk in disks:
            disk.lend(target)
            undo.callback(disk.give_back)
        return undo.pop_all()


def put_in_place(target: Target, disks: Sequence[tuple[Disk, str]]) -> None:
    """Make the disks' paths in a machine.

    Args:
        target: the machine.
        disks: each with its device in it.

    Raises:
        CannotStart: one is not there, or cannot be mounted; with the machine's words.
    """
    for disk, device in disks:
        try:
            target.run(["sh", "-c", _PUT, "sh", device, disk.inside, disk.format])
        except CommandFailed as error:
            words = error.completed.stderr.decode("utf-8", "replace").strip()[-300:]
            raise CannotStart(
                f"{target.name}: {disk.name} cannot be put at {disk.inside}: {words}",
                target=target.name,
            ) from error
