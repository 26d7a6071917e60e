"""Disks of the run on a daemon's machine that is not this one: as `pytest_vperf.targets.disks`, by commands there.

Disks of the run in a whole machine: lent to it, found in it, and put where tests expect them.
"""

from __future__ import annotations

import itertools
import re
from contextlib import ExitStack
from typing import TYPE_CHECKING, Literal

from pytest_vperf.quantity import amount
from pytest_vperf.targets.base import CannotStart, CommandFailed, TargetError, TimedOut
from pytest_vperf.targets.disks import Disk

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from pytest_vperf.targets.base import Target
    from pytest_vperf.targets.scope import Scope


#: Written through once, because blocks that were only allocated are read as zeros without asking the disk below; with
#: what a disk below may not leave out. Words: folder, MiB. Prints the device, its number, and the file system below.
_MAKE = """
set -e
trap 'rm -rf -- "$1"' EXIT
mkdir -p "$1"
dd if=/dev/urandom of="$1/image" bs=1M count="$2" conv=fsync status=none
device=$(losetup --find --show --direct-io=on "$1/image" 2>/dev/null || losetup --find --show "$1/image")
echo "$device $(cat "/sys/block/${device##*/}/dev") $(cat "/sys/block/${device##*/}/loop/dio")"
stat --file-system --format=%T "$1"
trap - EXIT
"""
_REMOVE = """
umount "$1/mounted" 2>/dev/null || umount -l "$1/mounted" 2>/dev/null
losetup --detach "$2" 2>/dev/null
rm -rf -- "$1"
"""
#: Seconds: an emulated host draws some tens of MB of random numbers in one.
_TIMEOUT = 600.0
_MADE = re.compile(r"(/dev/loop\d+) (\d+:\d+) ([01])\n(\S+)")
_numbers = itertools.count()


class MachineDisk(Disk):
    """A loop device on another machine. Made by `MachineDisks.make`; attributes as of `Disk`.

    Args:
        name: ``disk0``, the same on every target.
        host: the machine it is on.
        folder: of its file, there.
        made: what `_MAKE` said: device, number, direct I/O, file system below.
        size: bytes.
        format: its file system.
    """

    def __init__(
        self,
        name: str,
        host: Target,
        folder: str,
        made: tuple[str, ...],
        size: int,
        format: Literal["", "ext4"],
    ) -> None:
        self.name = name
        self.device, self.number, direct, below = made
        self.size = size
        self.format = format
        self._host = host
        self._there = folder
        self._mounted = False
        self._used_by_machine = ""
        self.details = {
            "device": self.device,
            "size": str(size),
            "file": "written",
            "format": format or "raw",
            "direct_io": "yes" if direct == "1" else "no",
            "below": below,
        }

    def where(self, target: Target) -> str:
        """Its path in a target; see `Disk.where`."""
        if getattr(target, "disks", None) is not None:
            return super().where(target)
        if target is not self._host:
            raise TargetError(
                f"{self.name} is on {self._host.name}, and not on {target.name}", target=target.name
            )
        return str(self.mounted()) if self.format else self.device

    def mounted(self) -> Path:
        """Where its file system is mounted on its host; mounted at the first call. See `Disk.mounted`."""
        from pathlib import PurePosixPath

        if not self.format:
            raise CannotStart(f"{self.name} is a raw disk: there is nothing to mount")
        if self._used_by_machine:
            raise CannotStart(
                f"{self.name} is in {self._used_by_machine}: it cannot be mounted there too"
            )
        point = f"{self._there}/mounted"
        if not self._mounted:
            script = 'mkdir -p "$1" && mount -o nosuid,nodev -t "$2" "$3" "$1"'
            _call(self._host, ["sh", "-c", script, "sh", point, self.format, self.device])
            self._mounted = True
        return PurePosixPath(point)  # type: ignore[return-value]  # of another machine

    def lend(self, machine: str) -> None:
        """Leave it to one virtual machine; see `Disk.lend`."""
        if self._used_by_machine:
            raise CannotStart(f"{self.name} is in {self._used_by_machine} already")
        if self._mounted:
            raise CannotStart(
                f"{self.name} is mounted on its host: make another disk for {machine}"
            )
        self._used_by_machine = machine

    def close(self) -> None:
        """Unmount it, take the loop device away, and remove the file. Safe to repeat; quiet if its host is gone."""
        from contextlib import suppress

        with suppress(TargetError):
            self._host.run(
                ["sh", "-c", _REMOVE, "sh", self._there, self.device], check=False, timeout=60.0
            )


class MachineDisks:
    """Makes disks on the machine that whole machines run on; as `pytest_vperf.targets.disks.Disks`.

    Args:
        host: that machine.
        folder: in which there the files are.
        scope: owns them.
    """

    def __init__(self, host: Target, folder: str, scope: Scope) -> None:
        self._host = host
        self._folder = folder
        self._scope = scope

    def make(self, size: str = "64 MiB", *, format: Literal["", "ext4"] = "") -> MachineDisk:
        """Make a disk.

        Args:
            size: e.g. ``256 MiB``; rounded up to whole MiB.
            format: ``ext4``, or nothing for a raw disk.

        Raises:
            CannotStart: there is no room, or a program failed there.
            ValueError: a size or format that there is not.
        """
        if format not in ("", "ext4"):
            raise ValueError(f"format is {format!r}, not 'ext4', or '' for a raw disk")
        mib = -(-round(amount("size", size, "byte", such_as="256 MiB")) // (1 << 20))
        if mib < 1:
            raise CannotStart(f"a disk of {size} is too small: at least 1 MiB")
        name = f"disk{next(_numbers)}"
        folder = f"{self._folder}/{name}"
        said = _call(self._host, ["sh", "-c", _MAKE, "sh", folder, str(mib)])
        found = _MADE.match(said)
        if found is None:
            raise CannotStart(f"{self._host.name}: a loop device is not understood: {said[:200]!r}")
        disk = MachineDisk(name, self._host, folder, found.groups(), mib << 20, format)
        self._scope.keep(disk)
        if format:
            # Without lazy initialisation: the kernel would write in the background while something is measured.
            options = "lazy_itable_init=0,lazy_journal_init=0"
            _call(self._host, ["mkfs.ext4", "-q", "-F", "-E", options, disk.device])
        return disk


def _call(host: Target, argv: list[str]) -> str:
    try:
        return host.run(argv, timeout=_TIMEOUT).text
    except CommandFailed as error:
        said = error.completed.stderr.decode("utf-8", "replace").strip()[-300:]
        raise CannotStart(
            f"{host.name}: a disk cannot be made there: {said}", target=host.name
        ) from error
    except TimedOut as error:
        raise CannotStart(
            f"{host.name}: a disk was not made there within {_TIMEOUT:g} s", target=host.name
        ) from error


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
