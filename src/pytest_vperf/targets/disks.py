"""Disks of the run: block devices on files in the run's folder, for workloads that measure storage.

A disk is a loop device, so that it can be overwritten, capped and discarded. Its file is filled once, because blocks
that are only allocated are read as zeros without any access to the disk below. The loop device uses direct I/O if the
file system below supports it (loop(4), LO_FLAGS_DIRECT_IO), which bypasses the page cache; the facts say whether it
does. Caps belong to the target, not the disk: see `Disk.capped`.

Disks are made on this machine, or by commands on the machine that targets run on. A block device that the user named
(`pytest_vperf.targets.real_disk`) is one, too.
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
from pytest_vperf.targets import real_disk
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
    from pytest_vperf.targets.real_disk import BlockDevice
    from pytest_vperf.targets.scope import Scope

    Format = Literal["", "ext4"]


_CONTROL = Path("/dev/loop-control")
#: No lazy initialisation: the kernel would write in the background during measurements.
_FORMAT = ("mkfs.ext4", "-q", "-F", "-E", "lazy_itable_init=0,lazy_journal_init=0")
#: Each program with its package.
_PROGRAMS = {"losetup": "mount", "mount": "mount", "umount": "mount", _FORMAT[0]: "e2fsprogs"}
#: Errors that root gets in a container.
_NOT_ALLOWED = re.compile("permission denied|not permitted", re.IGNORECASE)


def check(*, formatted: bool) -> None:
    """Make sure that disks can be made here, as far as it can be told without making one.

    Args:
        formatted: whether with a file system.

    Raises:
        Unavailable: this user may not, the kernel cannot, or a program is missing; with a remedy.
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
        CannotStart: it failed; with its message.
        OSError: it cannot be executed.
    """
    # By its path: root's search path may lack /usr/sbin after `su` without "-".
    program = find_program(argv[0]) or argv[0]
    done = subprocess.run(
        [program, *argv[1:]],
        env={**os.environ, "LC_ALL": "C"},  # its messages are parsed
        capture_output=True,
        text=True,
        check=False,
    )
    if done.returncode:
        raise refusal(f"{' '.join(argv)} failed: {done.stderr.strip()[-300:]}")


def refusal(why: str) -> TargetError:
    """The error for a failure, by its message: this machine cannot have disks, or this one cannot be made."""
    if _NOT_ALLOWED.search(why):
        remedy = "run as the machine's root; in a container, run it with --privileged"
        return Unavailable(why, remedy=remedy)
    return CannotStart(why)


_CHUNK = 1 << 20


class Disk:
    """One block device of the run. Made by `Disks.make`.

    Args:
        place: the machine that it is on.
        folder: its file's, there.
        direct_io: whether the loop device uses direct I/O.
        below: the type of file system that its file is in; ``device``: it is a block device of the machine's own.
        span: the bytes at its beginning that are to be used; ``None``: all.

    Attributes:
        name: ``disk0``, the same on every target.
        device: its path on the host, e.g. ``/dev/loop3``.
        number: its device number, e.g. ``7:3``.
        size: bytes.
        format: its file system, ``ext4``; empty for a raw disk.
        span: as above.
        details: file, allocation, and whether the loop device uses direct I/O.
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
        span: int | None = None,
    ) -> None:
        self.name = name
        self.device = device
        self.number = number
        self.size = size
        self.format = format
        self.span = span
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
        """Its path in containers and pods: that of the device, or of the mounted file system's root."""
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
            return str(self.mounted(follow=False)) if self.format else self.device
        if self not in attached:
            raise TargetError(
                f"{self.name} is not attached to {target.name}: start it with disks=[disk]",
                target=target.name,
            )
        return self.inside

    def mounted(self, *, follow: bool = True) -> PurePath:
        """Where its file system is mounted on the host; mounted on the first call.

        Args:
            follow: whether links in it are followed: for containers, which see only their own files. A program on the
                host would follow what a container has planted to the host's files; kernels before 5.10 let it
                (mount(8), ``nosymfollow``).

        Raises:
            CannotStart: it has no file system; or a virtual machine uses it, whose kernel would not notice our
                writes.
        """
        if not self.format:
            raise CannotStart(f"{self.name} is a raw disk: there is nothing to mount")
        if self._used_by_machine:
            there = "there" if self.remote else "here"
            raise CannotStart(
                f"{self.name} is in {self._used_by_machine}: it cannot be mounted {there} too"
            )
        return self._place.mount(self._folder, self.device, self.format, follow=follow)

    def lend(self, machine: str) -> None:
        """Reserve it for one virtual machine, until `give_back`.

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
        """End the reservation, once the machine has ended."""
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
            ValueError: a cap is invalid, or less than 1 a second.
        """
        rates = {
            name: None if rate is None else round(amount(name, rate, "byte/s", such_as="19.2 MB/s"))
            for name, rate in (("read_rate", read_rate), ("write_rate", write_rate))
        }
        for name, cap in {"read_iops": read_iops, "write_iops": write_iops, **rates}.items():
            # 0 means no cap to the kernel.
            if cap is not None and (isinstance(cap, bool) or not isinstance(cap, int) or cap < 1):
                raise ValueError(
                    f"{name} is {cap!r}: a cap is a whole number, and the smallest is 1 a second"
                )
        caps = DiskCaps(self.device, self.number, read_iops, write_iops, *rates.values())
        return CappedDisk(self, caps)

    def close(self) -> None:
        """Unmount it, detach the loop device, and remove the file. Safe to repeat; no error if its host is gone."""
        self._place.remove(self._folder, self.device)


@dataclass(frozen=True)
class CappedDisk:
    """A disk with one target's caps."""

    disk: Disk
    caps: DiskCaps


def attached(disks: Iterable[Disk | CappedDisk]) -> tuple[tuple[Disk, ...], tuple[DiskCaps, ...]]:
    """The disks themselves, and the caps of the capped ones."""
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
        named: the block devices that the user named, which may be overwritten.

    Attributes:
        named: as above.
    """

    def __init__(self, place: Here | There, scope: Scope, named: Sequence[str] = ()) -> None:
        self.named = tuple(named)
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
                claims about caps rather than a disk. On another machine, only on the disk.

        Raises:
            Unavailable: this user may not make loop devices, a program is missing, or ``memory`` is requested on
                another machine.
            CannotStart: there is no room, or a program failed.
            ValueError: the size, format or ``below`` is invalid.
        """
        length = _length(size, format)
        if below not in ("disk", "memory"):
            raise ValueError(f"below is {below!r}, not 'disk' or 'memory'")
        try:
            disk = self._place.make(length, format, in_memory=below == "memory")
        except OSError as error:
            raise refusal(f"a disk of {size} cannot be made: {error.strerror or error}") from error
        self._scope.keep(disk)
        return disk

    def use(self, device: str = "", *, size: str = "256 MiB", format: Format = "") -> Disk:
        """Use a block device that the user named with ``--vperf-disk``. What is on it is overwritten, and stays so.

        Args:
            device: its path; empty for the first one that was named.
            size: of the part at its beginning that is written, formatted and measured.
            format: as for `make`.

        Raises:
            Unavailable: the user did not name it, may not write to it, or it would be on another machine.
            CannotStart: it is mounted or used otherwise, is no block device, has partitions, or is too small.
            ValueError: the size or format is invalid.
        """
        length = _length(size, format)
        if not device and not self.named:
            raise Unavailable(
                "no disk was named that may be overwritten",
                remedy=f"{real_disk.OPTION}=/dev/…, and all that is on it is lost",
            )
        device = device or self.named[0]
        found = real_disk.find(device, self.named)
        try:
            disk = self._place.use(found, length, format)
        except OSError as error:
            raise refusal(f"{device} cannot be used: {error.strerror or error}") from error
        self._scope.keep(disk)
        return disk


def _length(size: str, format: str) -> int:
    """The bytes of a disk, in whole blocks."""
    if format not in ("", "ext4"):
        raise ValueError(f"format is {format!r}, not 'ext4', or '' for a raw disk")
    length = round(amount("size", size, "byte", such_as="256 MiB")) // 4096 * 4096
    if length < 1 << 20:
        raise CannotStart(f"a disk of {size} is too small: at least 1 MiB")
    return length


#: Where a disk is mounted in its folder: for containers; and for the host, which follows no link in it.
_POINTS = {True: "mounted", False: "own"}


class Here:
    """Makes disks on this machine, each in its own folder."""

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

    def use(self, found: BlockDevice, length: int, format: Format) -> Disk:
        """See `Disks.use`."""
        if found.size < length:
            raise CannotStart(f"{found.path} has {found.size} bytes, less than {length}")
        folder = self._run.subfolder("disk")
        try:
            real_disk.fill(found.path, length)
            if format:
                check(formatted=True)
                call(*_FORMAT, found.path, f"{length >> 10}k")
            return Disk(
                folder.name,
                self,
                str(folder),
                found.path,
                found.number,
                length,
                format,
                direct_io=True,
                below="device",
                span=length,
            )
        except BaseException:
            _remove(folder)
            raise

    def is_mounted(self, folder: str) -> bool:
        """Whether the disk with this folder is mounted on the machine."""
        return any(os.path.ismount(f"{folder}/{name}") for name in _POINTS.values())

    def mount(self, folder: str, device: str, format: str, *, follow: bool) -> PurePath:
        """Mount a disk unless it is mounted; return the mount point."""
        point = Path(folder, _POINTS[follow])
        if not point.is_mount():
            point.mkdir(exist_ok=True)
            # A machine that had the disk may have put set-user-ID programs and devices on it.
            what = ("-t", format, device, str(point))
            if not follow:
                with contextlib.suppress(
                    CannotStart
                ):  # of a mount(8) that does not know the option
                    call("mount", "-o", "nosuid,nodev,nosymfollow", *what)
                    return point
            call("mount", "-o", "nosuid,nodev", *what)
        return point

    def remove(self, folder: str, device: str) -> None:
        """Unmount a disk, detach its loop device, and remove its file. Safe to repeat."""
        deadline = time.monotonic() + 5
        for point in (Path(folder, name) for name in _POINTS.values()):
            while point.is_mount():
                # A container that has just ended may still use it; then it is unmounted lazily.
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
    """Write all blocks of a file, through to the disk."""
    chunk = os.urandom(_CHUNK)  # not zeros, which a disk below may not store
    with path.open("wb") as stream:
        # Optional: it reduces fragmentation, and some file systems cannot.
        with contextlib.suppress(OSError):
            os.posix_fallocate(stream.fileno(), 0, length)
        for start in range(0, length, _CHUNK):
            stream.write(chunk[: length - start])
        stream.flush()
        os.fsync(stream.fileno())


def _remove(folder: Path) -> None:
    if os.path.ismount(folder):
        mounts.unmount(folder)  # lazily: a loop device in use keeps its file open
    shutil.rmtree(folder, ignore_errors=True)


def _file_system(folder: Path) -> str:
    """The type of file system that a folder is in."""
    found = [each for each in mounts.mounts() if folder.is_relative_to(each.point)]
    return max(found, key=lambda each: len(each.point.parts)).kind if found else "unknown"


#: Fills the file with random data, see above. Arguments: folder, MiB. Prints the device, its number, whether it uses
#: direct I/O, and the file system below.
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
for point in "$1"/mounted "$1"/own; do
  umount "$point" 2>/dev/null || umount -l "$point" 2>/dev/null
done
losetup --detach "$2" 2>/dev/null
rm -rf -- "$1"
"""
#: Arguments: mount point, file system, device, and ``nosymfollow`` or nothing.
_MOUNT_THERE = """
mkdir -p "$1" && {
  [ "$4" ] && mount -o nosuid,nodev,"$4" -t "$2" "$3" "$1" 2>/dev/null ||
    mount -o nosuid,nodev -t "$2" "$3" "$1"
}
"""
#: Seconds: an emulated host generates some tens of MB of random data in one.
_TIMEOUT = 600.0
_MADE = re.compile(r"(/dev/loop\d+) (\d+:\d+) ([01])\n(\S+)")
_numbers = itertools.count()


class There:
    """Makes disks on another machine, the host of the tests' targets.

    Args:
        host: that machine.
        folder: the parent folder of the disks, there.
    """

    def __init__(self, host: Target, folder: str) -> None:
        self.host = host
        self._folder = folder
        self._mounted: set[str] = set()

    def make(self, length: int, format: Format, *, in_memory: bool) -> Disk:
        """See `Disks.make`; the size is rounded up to whole MiB."""
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

    def use(self, found: BlockDevice, length: int, format: Format) -> Disk:
        """See `Disks.use`; never possible."""
        raise Unavailable(
            f"{found.path} is a disk of this machine, and targets are started on another one",
            remedy="run pytest there",
            target=self.host.name,
        )

    def is_mounted(self, folder: str) -> bool:
        """As of `Here`."""
        return any(f"{folder}/{name}" in self._mounted for name in _POINTS.values())

    def mount(self, folder: str, device: str, format: str, *, follow: bool) -> PurePath:
        """As of `Here`."""
        point = f"{folder}/{_POINTS[follow]}"
        if point not in self._mounted:
            option = "" if follow else "nosymfollow"
            self._call("sh", "-c", _MOUNT_THERE, "sh", point, format, device, option)
            self._mounted.add(point)
        return PurePosixPath(point)

    def remove(self, folder: str, device: str) -> None:
        """See `Here.remove`; no error if the machine is gone."""
        argv = ["sh", "-c", _REMOVE_THERE, "sh", folder, device]
        with contextlib.suppress(TargetError):
            self.host.run(argv, check=False, timeout=60.0)
        self._mounted -= {f"{folder}/{name}" for name in _POINTS.values()}

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
    """Reserve disks for a machine; closing the returned stack gives them back.

    Raises:
        CannotStart: one is in use.
    """
    with ExitStack() as undo:
        for disk in disks:
            disk.lend(target)
            undo.callback(disk.give_back)
        return undo.pop_all()


def put_disks(target: Target, script: str, disks: Iterable[tuple[Disk, str]]) -> None:
    """Create the disks' paths in a machine.

    Args:
        target: the machine.
        script: creates one. Arguments: the machine's name for the disk, path, file system.
        disks: each with the machine's name for it.

    Raises:
        CannotStart: one is missing or cannot be mounted; with the machine's message.
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
