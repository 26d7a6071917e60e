"""An image with programs that a machine cannot execute is refused before a disk is made from it."""

from __future__ import annotations

import io
import struct
import tarfile
from typing import TYPE_CHECKING

import pytest

from pytest_vperf.targets.base import CannotStart
from pytest_vperf.targets.image.rootfs import from_tar
from pytest_vperf.targets.libvirt import root_disk

if TYPE_CHECKING:
    from pathlib import Path


def elf_for(machine: int) -> bytes:
    header = bytearray(64)
    header[:7] = b"\x7fELF\x02\x01\x01"
    struct.pack_into("<HH", header, 16, 2, machine)  # e_type, e_machine (elf(5))
    return bytes(header)


def image(path: Path, **programs: bytes) -> Path:
    with tarfile.open(path, "w") as archive:
        for name, data in programs.items():
            member = tarfile.TarInfo(name.replace("_", "/"))
            member.size, member.mode = len(data), 0o755
            archive.addfile(member, io.BytesIO(data))
        link = tarfile.TarInfo("sbin")
        link.type, link.linkname = tarfile.SYMTYPE, "usr/sbin"
        archive.addfile(link)
    return path


@pytest.mark.parametrize(
    ("machine", "name"), [(183, "aarch64"), (243, "riscv64"), (3, "i686"), (8, "machine 8")]
)
def test_an_image_for_another_architecture_is_refused(
    tmp_path: Path, machine: int, name: str
) -> None:
    path = image(tmp_path / "i.tar", usr_sbin_init=elf_for(machine))
    with pytest.raises(CannotStart) as caught:
        root_disk._check_architecture(from_tar(path))
    assert str(caught.value) == (
        f"the image {path} is for {name} (its /sbin/init is), and machines here are x86_64:"
        " name an image for x86_64"
    )


def test_the_shells_architecture_decides_where_init_is_a_script(tmp_path: Path) -> None:
    path = image(tmp_path / "i.tar", usr_sbin_init=b"#!/bin/sh\n", bin_sh=elf_for(183))
    with pytest.raises(CannotStart, match=r"is for aarch64 \(its /bin/sh is\)"):
        root_disk._check_architecture(from_tar(path))


@pytest.mark.parametrize("init", [elf_for(62), b"#!/bin/sh\n", b""])
def test_what_is_ours_or_unknown_is_left_to_the_kernel(tmp_path: Path, init: bytes) -> None:
    root_disk._check_architecture(from_tar(image(tmp_path / "i.tar", usr_sbin_init=init)))
