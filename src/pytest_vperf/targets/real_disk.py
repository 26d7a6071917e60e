"""Block devices that the user named, ``--vperf-disk=/dev/sdb``: all that is on one may be overwritten.

So it has to be named by the user, and by nobody else: a test cannot. And nothing may use it: the kernel opens a
device for one user alone (open(2), ``O_EXCL``) if it is neither mounted, in any namespace, nor swap space, nor part
of a volume, of an array or of an encrypted device, and if none of its partitions is.
"""

from __future__ import annotations

import errno
import os
import stat
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from pytest_vperf.targets.base import CannotStart, Unavailable

if TYPE_CHECKING:
    from collections.abc import Sequence

OPTION = "--vperf-disk"
_CHUNK = 1 << 20
_SYSTEM = Path("/sys/dev/block")


class BlockDevice(NamedTuple):
    """A device that may be overwritten.

    Attributes:
        path: e.g. ``/dev/sdb``, no link.
        number: its device number, e.g. ``8:16``.
        size: bytes.
    """

    path: str
    number: str
    size: int


def find(device: str, named: Sequence[str]) -> BlockDevice:
    """A device that the user named, if it may be used.

    Args:
        device: its path; a link, such as ``/dev/disk/by-id/…``, is followed.
        named: the devices that the user named.

    Raises:
        Unavailable: it was not named, or the user may not open it.
        CannotStart: it is no block device, in use, read-only, or has partitions.
    """
    path = os.path.realpath(device)
    if path not in {os.path.realpath(each) for each in named}:
        raise Unavailable(
            f"{device} was not named as a disk that may be overwritten",
            remedy=f"{OPTION}={device}, and all that is on it is lost",
        )
    try:
        status = Path(path).stat()
    except OSError as error:
        raise CannotStart(f"{device} cannot be used: {error.strerror}") from None
    if not stat.S_ISBLK(status.st_mode):
        raise CannotStart(f"{device} is no block device")
    number = f"{os.major(status.st_rdev)}:{os.minor(status.st_rdev)}"
    place = _SYSTEM / number
    parts = sorted(each.parent.name for each in place.glob("*/partition"))
    if parts:
        raise CannotStart(
            f"{device} has partitions ({', '.join(parts)}): name one of them, or wipe the disk"
        )
    if (place / "ro").read_text().strip() != "0":
        raise CannotStart(f"{device} is read-only")
    _check_unused(device, path, number)
    return BlockDevice(path, number, int((place / "size").read_text()) * 512)


def _check_unused(device: str, path: str, number: str) -> None:
    try:
        os.close(os.open(path, os.O_RDWR | os.O_EXCL | os.O_CLOEXEC))
    except PermissionError:
        raise Unavailable(f"this user may not write to {device}", remedy="run as root") from None
    except OSError as error:
        if error.errno != errno.EBUSY:
            raise CannotStart(f"{device} cannot be opened: {error.strerror}") from None
        raise CannotStart(f"{device} is in use: {_user(number)}") from None


def _user(number: str) -> str:
    """Who uses a device, as far as this namespace shows it."""
    for line in Path("/proc/self/mountinfo").read_text().splitlines():
        words = line.split(" ")
        if words[2] == number:
            return f"it is mounted at {words[4]}"
    holders = _SYSTEM / number / "holders"
    with suppress(OSError):
        if found := sorted(each.name for each in holders.iterdir()):
            return f"it is a part of {', '.join(found)}"
    return "it is mounted, swap space, or a part of another device"


def fill(path: str, length: int) -> None:
    """Write the first bytes of a device, through to it: blocks that were never written, or were discarded, are read
    as zeros without any access to the disk below.

    Raises:
        OSError: it cannot be written.
    """
    chunk = os.urandom(_CHUNK)
    with Path(path).open("r+b", buffering=0) as stream:
        for start in range(0, length, _CHUNK):
            stream.write(chunk[: length - start])
        os.fsync(stream.fileno())
