"""The container's image as the machine's disk: one read-only squashfs, made once per image."""

from __future__ import annotations

import subprocess
from typing import TYPE_CHECKING

from pytest_vperf.machine import cache
from pytest_vperf.machine.preflight import find_program
from pytest_vperf.targets.base import CannotStart, Unavailable

if TYPE_CHECKING:
    from pathlib import Path

#: Nothing compressed (a start must not pay for unpacking), the file system dated 0 so that equal input gives
#: equal bytes.
OPTIONS = ("-no-progress", "-quiet", "-noI", "-noD", "-noF", "-noX", "-mkfs-time", "0")


def build_disk(tar: Path, sha256: str) -> Path:
    """The disk for a root file system given as a tar archive.

    Args:
        tar: the archive, e.g. as ``docker export`` writes it.
        sha256: of the archive.

    Raises:
        Unavailable: squashfs-tools is not installed.
        CannotStart: the archive cannot be turned into a file system.
    """
    program = find_program("sqfstar")
    if program is None:
        raise Unavailable("sqfstar is not installed", remedy="apt-get install squashfs-tools")

    def build(folder: Path) -> None:
        with tar.open("rb") as stream:
            done = subprocess.run(
                [program, *OPTIONS, str(folder / "image.squashfs")],
                stdin=stream,
                capture_output=True,
                text=True,
                check=False,
            )
        if done.returncode:
            raise CannotStart(f"{tar} cannot be made a disk: {done.stderr.strip()[-300:]}")

    return cache.entry("disk", cache.content_key([sha256, *OPTIONS]), build) / "image.squashfs"
