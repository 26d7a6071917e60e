"""A disk that a firmware can boot a kernel from: one FAT file system with a boot loader, made without mounting.

The loader is SYSLINUX, in the first sector of an unpartitioned disk (syslinux(1)): a BIOS loads that sector and jumps
into it, whatever is in the others.
"""

from __future__ import annotations

import os
import subprocess
from typing import TYPE_CHECKING

from pytest_vperf.machine import cache
from pytest_vperf.machine.preflight import find_program
from pytest_vperf.targets.base import CannotStart, Unavailable

if TYPE_CHECKING:
    from pathlib import Path

    from pytest_vperf.targets.kernel.guest_kernel import GuestKernel

_PROGRAMS = {"mkfs.vfat": "dosfstools", "mcopy": "mtools", "syslinux": "syslinux"}
#: Free room beside kernel and first root, for the file system's own tables and the loader.
_ROOM = 8 << 20
#: Nothing is asked, nothing is waited for, nothing is drawn.
_CONFIGURATION = """DEFAULT linux
PROMPT 0
TIMEOUT 0
LABEL linux
    KERNEL /vmlinuz
    INITRD /initramfs
    APPEND {parameters}
"""
_TIMEOUT = 120.0


def build_boot_disk(kernel: GuestKernel, initramfs: Path, parameters: str) -> tuple[Path, str]:
    """The disk for one kernel, first root and command line, made once, and the key by which its content is known.

    Raises:
        Unavailable: a program that makes it is missing.
        CannotStart: it cannot be made; with the program's words.
    """
    for name, package in _PROGRAMS.items():
        if find_program(name) is None:
            raise Unavailable(f"{name} is not installed", remedy=f"apt-get install {package}")
    key = cache.content_key(
        [kernel.sha256, cache.file_sha256(initramfs), _CONFIGURATION, parameters, str(_ROOM)]
    )

    def build(folder: Path) -> None:
        disk, configuration = folder / "boot.fat", folder / "syslinux.cfg"
        configuration.write_text(_CONFIGURATION.format(parameters=parameters))
        size = kernel.image.stat().st_size + initramfs.stat().st_size + _ROOM
        with disk.open("wb") as stream:
            os.truncate(stream.fileno(), -(-size // (1 << 20)) << 20)
        # Identity and date are not drawn, so that equal input gives an equal disk.
        _call("mkfs.vfat", "--invariant", "-n", "VPERF-BOOT", str(disk))
        for file, name in (
            (kernel.image, "vmlinuz"),
            (initramfs, "initramfs"),
            (configuration, "syslinux.cfg"),
        ):
            _call("mcopy", "-i", str(disk), str(file), f"::{name}")
        _call("syslinux", "--install", str(disk))

    return cache.entry("boot", key, build) / "boot.fat", key


def _call(name: str, *arguments: str) -> None:
    program = find_program(name) or name
    environment = {**os.environ, "LC_ALL": "C", "MTOOLS_SKIP_CHECK": "1"}
    try:
        done = subprocess.run(
            [program, *arguments],
            env=environment,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            errors="replace",
            check=False,
            timeout=_TIMEOUT,
        )
    except subprocess.TimeoutExpired:
        raise CannotStart(f"{name} did not end within {_TIMEOUT:g} s") from None
    if done.returncode:
        said = " ".join((done.stderr or done.stdout).split())[-300:]
        raise CannotStart(f"a disk to boot from cannot be made: {name}: {said}")
