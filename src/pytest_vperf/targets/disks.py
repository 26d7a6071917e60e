"""Disks of the run: block devices on files of the run's folder, for workloads that measure storage.

A disk is a loop device, so that it can be written over, capped and thrown away. Its file is written through once,
because blocks that were only allocated are read as zeros without asking the disk below. The loop device does direct
I/O where the file system below lets it (loop(4), LO_FLAGS_DIRECT_IO), which leaves the page cache out; the facts
say whether it does. Caps are the target's, not the disk's: see `Disk.capped`.

Disks are made on this machine, or by commands on the machine that whole machines run on.
"""

from __future__ import annotations

import contextlib
import itertools
import os
import re
import shutil
import subprocess
import time
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path, PurePath, PurePosixPath
from typing import TYPE_CHECKING, Literal

from pytest_vperf.machine import mounts
from pytest_vperf.machine.preflight import find_program
from pytest_vperf.quantity import amount
from pytest_vperf.targets.base import (
    CannotStart,
    CommandFailed,
    TargetError,
    TimedOut,
    Unavailable,
)
from pytest_vperf.targets.limits import DiskCaps

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from pytest_vperf.machine.runs import Run
    from pytest_vperf.targets.base import Target
    from pytest_vperf.targets.scope import Scope

    Format = Literal["", "ext4"]


_CONTROL = Path("/dev/loop-control")
#: Without lazy initialisation: the kernel would write in the background while something is measured.
_FORMAT = ("mkfs.ext4", "-q", "-F", "-E", "lazy_itable_init=0,lazy_journal_init=0")
#: Each program with its package.
_PROGRAMS = {"losetup": "mount", "mount": "mount", "umount": "mount", _FORMAT[0]: "e2fsprogs"}
#: What root is told in a container, who is not the machine's.
_NOT_ALLOWED = re.compile("permission denied|not permitted", re.IGNORECASE)


def check(*, formatted: bool) -> None:
    """Make sure that disks can be made here, as far as can be seen without doing it.

    Args:
        formatted: with a file system.

    Raises:
        Unavailable: this user may not, the kernel cannot, or a program is missing; says what mends it.
    """
    if os.geteuid() != 0:
        why = "a disk of the run is a loop device, which needs root"
        raise Unavailable(why, remedy="run as root")
    for program, package in _PROGRAMS.items():
        if find_program(program) is None and (formatted or program != _FORMAT[0]):
            raise Unavailable(f"{program} is not installed", remedy=f"apt-get install {package}")
    if not _CONTROL.exists():
        raise Unavailable(
            f"this machine has no loop devices: there is no {_CONTROL}",
            remedy="modprobe loop; in a container, run it with --privileged",
        )


def call(*argv: str) -> None:
    """Run a program to its end.

    Raises:
        Unavailable: this user may not do that here.
        CannotStart: it failed; with its words.
        OSError: it cannot be executed.
    """
    # By its path: root's search path may lack /usr/sbin, where `su` was called without "-".
    program = find_program(argv[0]) or argv[0]
    done = subprocess.run(
        [program, *argv[1:]],
        env={**os.environ, "LC_ALL": "C"},  # its words are read
        capture_output=True,
        text=True,
        check=False,
    )
    if done.returncode:
        raise refusal(f"{' '.join(argv)} failed: {done.stderr.strip()[-300:]}")


def refusal(why: str) -> TargetError:
    """What a failure is, by its words: this machine cannot have disks, or this one cannot be made."""
    if _NOT_ALLOWED.search(why):
        remedy = "run as the machine's root; in a container, run it with --privileged"
        return Unavailable(why, remedy=remedy)
    return CannotStart(why)


_CHUNK = 1 << 20


class Disk:
    """One block device of the run. Made by `Disks.make`.

    Args:
        place: the machine that it is on.
        folder: of its file, there.
        direct_io: whether the loop device does direct I/O.
        below: the kind of file system that its file is in.

    Attributes:
        name: ``disk0``, the same on every target.
        device: its path on the host, e.g. ``/dev/loop3``.
        number: its device number, e.g. ``7:3``.
        size: bytes.
        format: its file system, ``ext4``; empty for a raw disk.
        details: file, allocation, and whether the loop device does direct I/O.
    """

    def __init__(
        self,
        name: str,
        place: Here | There,
        folder: str,
        device: str,
        number: str,
        size: int,
        format: Format,
        *,
        direct_io: bool,
        below: str,
    ) -> None:
        self.name = name
        self.device = device
        self.number = number
        self.size = size
        self.format = format
        self._place = place
        self._folder = folder
        self._used_by_machine = ""
        self.details = {
            "device": device,
            "size": str(size),
            "file": "written",
            "format": format or "raw",
            "direct_io": "yes" if direct_io else "no",
            "below": below,
        }

    @property
    def remote(self) -> bool:
        """Whether it is on another machine."""
        return self._place.host is not None

    @property
    def formatted(self) -> bool:
        """Whether it has a file system."""
        return bool(self.format)

    @property
    def inside(self) -> str:
        """Its path in containers and pods: of the device, or of the mounted file system's root."""
        return f"/vperf-{self.name}" if self.format else f"/dev/vperf-{self.name}"

    def where(self, target: Target) -> str:
        """Its path in a target.

        Raises:
            TargetError: the container or pod was started without it, or it is on another machine.
            CannotStart: it cannot be mounted on the host.
        """
        attached: Sequence[Disk] | None = getattr(target, "disks", None)
        if attached is None:
            host = self._place.host
            if host is not None and target is not host:
                raise TargetError(
                    f"{self.name} is on {host.name}, and not on {target.name}", target=target.name
                )
            return str(self.mounted()) if self.format else self.device
        if self not in attached:
            raise TargetError(
                f"{self.name} is not attached to {target.name}: start it with disks=[disk]",
                target=target.name,
            )
        return self.inside

    def mounted(self) -> PurePath:
        """Where its file system is mounted on the host; mounted at the first call.

        Raises:
            CannotStart: a virtual machine has it, whose kernel would not see what this one writes; or it has no
                file system.
        """
        if not self.format:
            raise CannotStart(f"{self.name} is a raw disk: there is nothing to mount")
        if self._used_by_machine:
            there = "there" if self.remote else "here"
            raise CannotStart(
                f"{self.name} is in {self._used_by_machine}: it cannot be mounted {there} too"
            )
        return self._place.mount(self._folder, self.device, self.format)

    def lend(self, machine: str) -> None:
        """Leave it to one virtual machine, until `give_back`.

        Raises:
            CannotStart: it is mounted on the host, or another machine has it.
        """
        if self._used_by_machine:
            raise CannotStart(f"{self.name} is in {self._used_by_machine} already")
        if self._place.is_mounted(self._folder):
            whose = "its" if self.remote else "the"
            raise CannotStart(
                f"{self.name} is mounted on {whose} host: make another disk for {machine}"
            )
        self._used_by_machine = machine

    def give_back(self) -> None:
        """The machine has ended."""
        self._used_by_machine = ""

    def capped(
        self,
        *,
        read_iops: int | None = None,
        write_iops: int | None = None,
        read_rate: str | None = None,
        write_rate: str | None = None,
    ) -> CappedDisk:
        """This disk with caps, for ``disks=[disk.capped(…)]``.

        Args:
            read_iops: blocks a second.
            write_iops: likewise.
            read_rate: bytes a second, e.g. ``19.2 MB/s``.
            write_rate: likewise.

        Raises:
            ValueError: a cap is none, or less than 1 a second.
        """
        rates = {
            name: None if rate is None else round(amount(name, rate, "byte/s", such_as="19.2 MB/s"))
            for name, rate in (("read_rate", read_rate), ("write_rate", write_rate))
        }
        for name, cap in {"read_iops": read_iops, "write_iops": write_iops, **rates}.items():
            # To the kernel 0 is no cap at all.
            if cap is not None and (isinstance(cap, bool) or not isinstance(cap, int) or cap < 1):
                raise ValueError(
                    f"{name} is {cap!r}: a cap is a whole number, and the smallest is 1 a second"
                )
        caps = DiskCaps(self.device, self.number, read_iops, write_iops, *rates.values())
        return CappedDisk(self, caps)

    def close(self) -> None:
        """Unmount it, take the loop device away, and remove the file. Safe to repeat; quiet if its host is gone."""
        self._place.remove(self._folder, self.device)


@dataclass(frozen=True)
class CappedDisk:
    """A disk with what one target may do with it."""

    disk: Disk
    caps: DiskCaps


def attached(disks: Iterable[Disk | CappedDisk]) -> tuple[tuple[Disk, ...], tuple[DiskCaps, ...]]:
    """The disks themselves, and the caps of those that have some."""
    listed = list(disks)
    return (
        tuple(each.disk if isinstance(each, CappedDisk) else each for each in listed),
        tuple(each.caps for each in listed if isinstance(each, CappedDisk)),
    )


class Disks:
    """Makes disks; each ends with the sample or test that it was made in, after the targets that use it.

    Args:
        place: the machine that they are on.
        scope: owns them.
    """

    def __init__(self, place: Here | There, scope: Scope) -> None:
        self._place = place
        self._scope = scope

    def make(
        self,
        size: str = "64 MiB",
        *,
        format: Format = "",
        below: Literal["disk", "memory"] = "disk",
    ) -> Disk:
        """Make a disk.

        Args:
            size: e.g. ``256 MiB``.
            format: ``ext4``, or nothing for a raw disk.
            below: where its file is: on the ``disk`` of the run's folder, or in ``memory``, which is steadier: for
                what is said about caps and not about a disk. On another machine it is on the disk.

        Raises:
            Unavailable: this user may not make loop devices, a program is missing, or the memory is another
                machine's.
            CannotStart: there is no room, or a program failed.
            ValueError: a size, format or place that there is not.
        """
        if format not in ("", "ext4"):
            raise ValueError(f"format is {format!r}, not 'ext4', or '' for a raw disk")
        if below not in ("disk", "memory"):
            raise ValueError(f"below is {below!r}, not 'disk' or 'memory'")
        length = round(amount("size", size, "byte", such_as="256 MiB")) // 4096 * 4096
        if length < 1 << 20:
            raise CannotStart(f"a disk of {size} is too small: at least 1 MiB")
        try:
            disk = self._place.make(length, format, in_memory=below == "memory")
        except OSError as error:
            raise refusal(f"a disk of {size} cannot be made: {error.strerror or error}") from error
        self._scope.keep(disk)
        return disk


class Here:
    """This machine as the place of a run's disks, each in a folder of its own."""

    host = None

    def __init__(self, run: Run) -> None:
        self._run = run

    def make(self, length: int, format: Format, *, in_memory: bool) -> Disk:
        """See `Disks.make`."""
        check(formatted=bool(format))
        folder, device = self._run.subfolder("disk"), ""
        try:
            if in_memory:
                room = f"size={length + (1 << 20)},mode=700"
                call(
                    "mount", "-t", "tmpfs", "-o", f"{room},nosuid,nodev", "vperf-disk", str(folder)
                )
            _write(folder / "image", length)
            device = mounts.attach_loop(folder / "image")
            if format:
                call(*_FORMAT, device)
            status = Path(device).stat().st_rdev
            return Disk(
                folder.name,
                self,
                str(folder),
                device,
                f"{os.major(status)}:{os.minor(status)}",
                length,
                format,
                direct_io=mounts.direct_loop(device),
                below=_file_system(folder),
            )
        except BaseException:
            if device:
                mounts.detach_loop(device)
            _remove(folder)
            raise

    def is_mounted(self, folder: str) -> bool:
        """Whether the disk with this folder is mounted on the machine."""
        return os.path.ismount(f"{folder}/mounted")

    def mount(self, folder: str, device: str, format: str) -> PurePath:
        """Mount a disk, unless it is; where it is mounted then."""
        point = Path(folder, "mounted")
        if not self.is_mounted(folder):
            point.mkdir(exist_ok=True)
            # A machine that had the disk may have made set-user-ID programs on it, and devices.
            call("mount", "-o", "nosuid,nodev", "-t", format, device, str(point))
        return point

    def remove(self, folder: str, device: str) -> None:
        """Unmount a disk, take its loop device away, and remove its file. Safe to repeat."""
        point = Path(folder, "mounted")
        deadline = time.monotonic() + 5
        while self.is_mounted(folder):
            # A container that ended a moment ago may still hold it; then it is detached lazily.
            try:
                call("umount", str(point))
            except (CannotStart, Unavailable, OSError):
                if time.monotonic() > deadline:
                    mounts.unmount(point)
                    break
                time.sleep(0.05)
        if mounts.loop_backing(device) == f"{folder}/image":
            mounts.detach_loop(device)
        _remove(Path(folder))


def _write(path: Path, length: int) -> None:
    """A file whose blocks are all written, on the disk and not only in memory."""
    chunk = os.urandom(_CHUNK)  # not zeros, which a disk below may leave out
    with path.open("wb") as stream:
        with contextlib.suppress(OSError):  # not every file system can; it only saves fragments
            os.posix_fallocate(stream.fileno(), 0, length)
        for start in range(0, length, _CHUNK):
            stream.write(chunk[: length - start])
        stream.flush()
        os.fsync(stream.fileno())


def _remove(folder: Path) -> None:
    if os.path.ismount(folder):
        mounts.unmount(folder)  # lazily: a loop device that is still in use holds its file
    shutil.rmtree(folder, ignore_errors=True)


def _file_system(folder: Path) -> str:
    """The kind of file system that a folder is in."""
    found = [each for each in mounts.mounts() if folder.is_relative_to(each.point)]
    return max(found, key=lambda each: len(each.point.parts)).kind if found else "unknown"


#: Written through once, because blocks that were only allocated are read as zeros without asking the disk below; with
#: what a disk below may not leave out. Words: folder, MiB. Prints the device, its number, and the file system below.
_MAKE_THERE = """
set -e
trap 'rm -rf -- "$1"' EXIT
mkdir -p "$1"
dd if=/dev/urandom of="$1/image" bs=1M count="$2" conv=fsync status=none
device=$(losetup --find --show --direct-io=on "$1/image" 2>/dev/null || losetup --find --show "$1/image")
echo "$device $(cat "/sys/block/${device##*/}/dev") $(cat "/sys/block/${device##*/}/loop/dio")"
stat --file-system --format=%T "$1"
trap - EXIT
"""
_REMOVE_THERE = """
umount "$1/mounted" 2>/dev/null || umount -l "$1/mounted" 2>/dev/null
losetup --detach "$2" 2>/dev/null
rm -rf -- "$1"
"""
_MOUNT_THERE = 'mkdir -p "$1" && mount -o nosuid,nodev -t "$2" "$3" "$1"'
#: Seconds: an emulated host draws some tens of MB of random numbers in one.
_TIMEOUT = 600.0
_MADE = re.compile(r"(/dev/loop\d+) (\d+:\d+) ([01])\n(\S+)")
_numbers = itertools.count()


class There:
    """Another machine as the place of disks: the one that whole machines run on, or that the tests are about.

    Args:
        host: that machine.
        folder: in which there the disks' own are.
    """

    def __init__(self, host: Target, folder: str) -> None:
        self.host = host
        self._folder = folder
        self._mounted: set[str] = set()

    def make(self, length: int, format: Format, *, in_memory: bool) -> Disk:
        """See `Disks.make`; of whole MiB, rounded up."""
        if in_memory:
            raise Unavailable(
                "a disk in memory can only be made on this machine", target=self.host.name
            )
        mib = -(-length // (1 << 20))
        name = f"disk{next(_numbers)}"
        folder = f"{self._folder}/{name}"
        said = self._call("sh", "-c", _MAKE_THERE, "sh", folder, str(mib))
        found = _MADE.match(said)
        if found is None:
            raise CannotStart(f"{self.host.name}: a loop device is not understood: {said[:200]!r}")
        device, number, direct, below = found.groups()
        try:
            if format:
                self._call(*_FORMAT, device)
        except BaseException:
            self.remove(folder, device)
            raise
        size, direct_io = mib << 20, direct == "1"
        return Disk(
            name, self, folder, device, number, size, format, direct_io=direct_io, below=below
        )

    def is_mounted(self, folder: str) -> bool:
        """As of `Here`."""
        return folder in self._mounted

    def mount(self, folder: str, device: str, format: str) -> PurePath:
        """As of `Here`."""
        point = f"{folder}/mounted"
        if not self.is_mounted(folder):
            self._call("sh", "-c", _MOUNT_THERE, "sh", point, format, device)
            self._mounted.add(folder)
        return PurePosixPath(point)

    def remove(self, folder: str, device: str) -> None:
        """As of `Here`; quiet if the machine is gone."""
        argv = ["sh", "-c", _REMOVE_THERE, "sh", folder, device]
        with contextlib.suppress(TargetError):
            self.host.run(argv, check=False, timeout=60.0)
        self._mounted.discard(folder)

    def _call(self, *argv: str) -> str:
        host = self.host
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


def put_disks(target: Target, script: str, disks: Iterable[tuple[Disk, str]]) -> None:
    """Make the disks' paths in a machine.

    Args:
        target: the machine.
        script: makes one. Words: how the machine knows the disk, path, file system.
        disks: each with how the machine knows it.

    Raises:
        CannotStart: one is not there, or cannot be mounted; with the machine's words.
    """
    for disk, known in disks:
        try:
            target.run(["sh", "-c", script, "sh", known, disk.inside, disk.format])
        except CommandFailed as error:
            words = error.completed.stderr.decode("utf-8", "replace").strip()[-300:]
            raise CannotStart(
                f"{target.name}: {disk.name} cannot be put at {disk.inside}: {words}",
                target=target.name,
            ) from error
