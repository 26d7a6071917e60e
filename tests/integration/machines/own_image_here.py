"""A disk as an installer leaves it: a boot record, a partition with boot loader and kernel, one with the system."""

from __future__ import annotations

import os
import struct
import subprocess
from pathlib import Path
from typing import TYPE_CHECKING

from pytest_vperf.targets.guest.guests import PARAMETERS
from pytest_vperf.targets.kernel.guest_kernel import VIRTIO, build_root_initramfs
from pytest_vperf.targets.libvirt.root_disk import (
    build_boot_disk,
    build_root_disk,
    init_parameter,
)

if TYPE_CHECKING:
    from pytest_vperf.targets.image.rootfs import Rootfs
    from pytest_vperf.targets.kernel.guest_kernel import GuestKernel

#: SYSLINUX's boot record, which starts the partition that is marked as active.
_BOOT_RECORD = Path("/usr/lib/SYSLINUX/mbr.bin")
_SECTOR, _FIRST = 512, 2048
_FAT, _LINUX, _ACTIVE = 0x0C, 0x83, 0x80


def make_own_image(folder: Path, rootfs: Rootfs, kernel: GuestKernel) -> Path:
    """A system of its own, which boots by firmware, in the format qcow2."""
    words = [each.replace("/dev/vda", "/dev/vda2") for each in PARAMETERS]
    parameters = " ".join([*words, init_parameter("small")])
    boot, _ = build_boot_disk(kernel, build_root_initramfs(kernel, VIRTIO), parameters)
    root, _ = build_root_disk(rootfs)
    raw, own = folder / "own.raw", folder / "own.qcow2"
    record = bytearray(_BOOT_RECORD.read_bytes().ljust(446, b"\0"))
    place = _FIRST
    with raw.open("wb") as disk:
        for source, kind, active in ((boot, _FAT, _ACTIVE), (root, _LINUX, 0)):
            length = source.stat().st_size // _SECTOR
            # The ends by cylinder, head and sector are for firmware that knows nothing else (LBA is from 1996).
            ends = b"\xfe\xff\xff"
            record += bytes([active]) + ends + bytes([kind]) + ends
            record += struct.pack("<II", place, length)
            _copy(source, disk.fileno(), place * _SECTOR)
            place += length
        disk.truncate(place * _SECTOR)
        os.pwrite(disk.fileno(), bytes(record).ljust(510, b"\0") + b"\x55\xaa", 0)
    subprocess.run(["qemu-img", "convert", "-f", "raw", "-O", "qcow2", raw, own], check=True)
    raw.unlink()
    return own


def _copy(source: Path, disk: int, offset: int) -> None:
    """Copy a file into a disk, without its holes."""
    with source.open("rb") as stream:
        end, here = os.fstat(stream.fileno()).st_size, 0
        while here < end:
            try:
                data = os.lseek(stream.fileno(), here, os.SEEK_DATA)
            except OSError:  # only a hole is left
                return
            here = os.lseek(stream.fileno(), data, os.SEEK_HOLE)
            while data < here:
                piece = os.pread(stream.fileno(), min(1 << 20, here - data), data)
                os.pwrite(disk, piece, offset + data)
                data += len(piece)
