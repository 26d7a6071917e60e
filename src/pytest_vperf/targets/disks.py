"""Disks of the run: block devices on files of the run's folder, for workloads that measure storage.

A disk is a loop device, so that it can be written over, capped and thrown away. Its file is written through once,
because blocks that were only allocated are read as zeros without asking the disk below. The loop device does direct
I/O where the file system below lets it (loop(4), LO_FLAGS_DIRECT_IO), which leaves the page cache out; the facts
say whether it does. Caps are the target's, not the disk's: see `Disk.capped`.

The programs that disks are made and mounted with, and how a machine is told that it cannot have disks.
"""

from __future__ import annotations

import contextlib
import os
import re
import shutil
import subprocess
import time
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Literal

from pytest_vperf.machine import mounts
from pytest_vperf.machine.preflight import find_program
from pytest_vperf.quantity import amount
from pytest_vperf.targets.base import CannotStart, TargetError, Unavailable
from pytest_vperf.targets.limits import DiskCaps

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from pytest_vperf.machine.runs import Run
    from pytest_vperf.targets.base import Target
    from pytest_vperf.targets.scope import Scope


_CONTROL = Path("/dev/loop-control")
_MAKE = "mkfs.ext4"
#: Each program with its package.
_PROGRAMS = {"losetup": "mount", "mount": "mount", "umount": "mount", _MAKE: "e2fsprogs"}
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
        if find_program(program) is None and (formatted or program != _MAKE):
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

    Attributes:
        name: ``disk0``, the same on every target.
        device: its path on the host, e.g. ``/dev/loop3``.
        number: its device number, e.g. ``7:3``.
        size: bytes.
        format: its file system, ``ext4``; empty for a raw disk.
        details: file, allocation, and whether the loop device does direct I/O.
    """

    def __init__(
        self, name: str, folder: Path, device: str, size: int, format: Literal["", "ext4"]
    ) -> None:
        self.name = name
        self.device = device
        self.size = size
        self.format = format
        self._folder = folder
        self._used_by_machine = ""
        status = Path(device).stat().st_rdev
        self.number = f"{os.major(status)}:{os.minor(status)}"
        self.details = {
            "device": device,
            "size": str(size),
            "file": "written",
            "format": format or "raw",
            "direct_io": "yes" if mounts.direct_loop(device) else "no",
            "below": _file_system(folder),
        }

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
            TargetError: the container or pod was started without it.
            CannotStart: it cannot be mounted on the host.
        """
        attached: Sequence[Disk] | None = getattr(target, "disks", None)
        if attached is None:
            return str(self.mounted()) if self.format else self.device
        if self not in attached:
            raise TargetError(
                f"{self.name} is not attached to {target.name}: start it with disks=[disk]",
                target=target.name,
            )
        return self.inside

    def mounted(self) -> Path:
        """Where its file system is mounted on the host; mounted at the first call.

        Raises:
            CannotStart: a virtual machine has it, whose kernel would not see what this one writes; or it has no
                file system.
        """
        point = self._folder / "mounted"
        if not self.format:
            raise CannotStart(f"{self.name} is a raw disk: there is nothing to mount")
        if self._used_by_machine:
            raise CannotStart(
                f"{self.name} is in {self._used_by_machine}: it cannot be mounted here too"
            )
        if not os.path.ismount(point):
            point.mkdir(exist_ok=True)
            # A machine that had the disk may have made set-user-ID programs on it, and devices.
            call("mount", "-o", "nosuid,nodev", "-t", self.format, self.device, str(point))
        return point

    def lend(self, machine: str) -> None:
        """Leave it to one virtual machine, until `give_back`.

        Raises:
            CannotStart: it is mounted on the host, or another machine has it.
        """
        if self._used_by_machine:
            raise CannotStart(f"{self.name} is in {self._used_by_machine} already")
        if os.path.ismount(self._folder / "mounted"):
            raise CannotStart(
                f"{self.name} is mounted on the host: make another disk for {machine}"
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
        """Unmount it, take the loop device away, and remove the file. Safe to repeat."""
        point = self._folder / "mounted"
        deadline = time.monotonic() + 5
        while os.path.ismount(point):
            # A container that ended a moment ago may still hold it; then it is detached lazily.
            try:
                call("umount", str(point))
            except (CannotStart, Unavailable, OSError):
                if time.monotonic() > deadline:
                    mounts.unmount(point)
                    break
                time.sleep(0.05)
        if mounts.loop_backing(self.device) == str(self._folder / "image"):
            mounts.detach_loop(self.device)
        _remove(self._folder)


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
        run: in whose folder the files are.
        scope: owns them.
    """

    def __init__(self, run: Run, scope: Scope) -> None:
        self._run = run
        self._scope = scope

    def make(
        self,
        size: str = "64 MiB",
        *,
        format: Literal["", "ext4"] = "",
        below: Literal["disk", "memory"] = "disk",
    ) -> Disk:
        """Make a disk.

        Args:
            size: e.g. ``256 MiB``.
            format: ``ext4``, or nothing for a raw disk.
            below: where its file is: on the ``disk`` of the run's folder, or in ``memory``, which is steadier: for
                what is said about caps and not about a disk.

        Raises:
            Unavailable: this user may not make loop devices, or a program is missing.
            CannotStart: there is no room, or a program failed.
            ValueError: a size, format or place that there is not.
        """
        if format not in ("", "ext4"):
            raise ValueError(f"format is {format!r}, not 'ext4', or '' for a raw disk")
        if below not in ("disk", "memory"):
            raise ValueError(f"below is {below!r}, not 'disk' or 'memory'")
        check(formatted=bool(format))
        length = round(amount("size", size, "byte", such_as="256 MiB")) // 4096 * 4096
        if length < 1 << 20:
            raise CannotStart(f"a disk of {size} is too small: at least 1 MiB")
        folder = self._run.subfolder("disk")
        device = ""
        try:
            if below == "memory":
                room = f"size={length + (1 << 20)},mode=700"
                call(
                    "mount", "-t", "tmpfs", "-o", f"{room},nosuid,nodev", "vperf-disk", str(folder)
                )
            _write(folder / "image", length)
            device = mounts.attach_loop(folder / "image")
            if format:
                # Without lazy initialisation: the kernel would write in the background while something is measured.
                options = "lazy_itable_init=0,lazy_journal_init=0"
                call("mkfs.ext4", "-q", "-F", "-E", options, device)
            disk = Disk(folder.name, folder, device, length, format)
        except BaseException as error:
            if device:
                mounts.detach_loop(device)
            _remove(folder)
            if isinstance(error, OSError):
                why = f"a disk of {size} cannot be made: {error.strerror or error}"
                raise refusal(why) from error
            raise
        self._scope.keep(disk)
        return disk


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
