"""A guest's own image: what is read of it, and which ones are refused before QEMU opens them."""

from __future__ import annotations

import base64
import hashlib
import struct
from typing import TYPE_CHECKING

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pytest_vperf.foreign_text import LONGEST
from pytest_vperf.targets.base import CannotStart
from pytest_vperf.targets.guest.own_image import OwnGuest, read_image

if TYPE_CHECKING:
    from pathlib import Path

    from tests.unit.targets.guest.conftest import Guest as Machine


def header(
    *,
    version: int = 3,
    backing: int = 0,
    size: int = 2 << 30,
    encryption: int = 0,
    features: int = 0,
) -> bytes:
    """The header that docs/interop/qcow2.rst describes, up to the incompatible features."""
    head = b"QFI\xfb" + struct.pack(">IQIIQI", version, backing, 0, 16, size, encryption)
    return head.ljust(72, b"\0") + (struct.pack(">Q", features) if version > 2 else b"")


@pytest.mark.parametrize(
    "content",
    [
        header(),
        header(version=2),
        # Not closed cleanly, compressed by zstd, and with extended entries: all of these can be read.
        header(features=1 | 1 << 3 | 1 << 4),
    ],
)
def test_an_image_is_known_by_its_content(tmp_path: Path, content: bytes) -> None:
    path = tmp_path / "own.qcow2"
    path.write_bytes(content)
    image = read_image(path)
    assert (image.name, image.size) == ("own.qcow2", 2 << 30)
    assert image.sha256 == hashlib.sha256(content).hexdigest()


@pytest.mark.parametrize(
    ("content", "why"),
    [
        (b"", "it is not in the format qcow2, which qemu-img convert -O qcow2 makes"),
        (b"\0" * 4096, "it is not in the format qcow2, which qemu-img convert -O qcow2 makes"),
        (
            header(version=2)[:71],
            "it is not in the format qcow2, which qemu-img convert -O qcow2 makes",
        ),
        (header()[:79], "its header is cut off"),
        (header(version=1), "it has version 1 of the format qcow2, and not 2 or 3"),
        (header(version=4), "it has version 4 of the format qcow2, and not 2 or 3"),
        (
            header(backing=104),
            "it needs another file, its backing file: qemu-img convert -O qcow2 makes one that needs none",
        ),
        (
            header(version=2, backing=72),
            "it needs another file, its backing file: qemu-img convert -O qcow2 makes one that needs none",
        ),
        (
            header(features=1 << 2),
            "it needs another file, with its data: qemu-img convert -O qcow2 makes one that needs none",
        ),
        (header(encryption=1), "it is encrypted"),
        (header(encryption=2), "it is encrypted"),
        (header(features=1 << 1), "it is marked as corrupt: qemu-img check -r all repairs it"),
        (header(size=0), "its disk has 0 bytes, which no system fits on"),
    ],
)
def test_an_image_that_cannot_be_one_s_own_is_refused(
    tmp_path: Path, content: bytes, why: str
) -> None:
    path = tmp_path / "own.qcow2"
    path.write_bytes(content)
    with pytest.raises(CannotStart) as caught:
        read_image(path)
    assert str(caught.value) == f"{path} cannot be a guest's image: {why}"


def test_one_that_cannot_be_read_says_why(tmp_path: Path) -> None:
    with pytest.raises(CannotStart, match=r"cannot be read: No such file or directory$"):
        read_image(tmp_path / "none.qcow2")


@given(st.binary(max_size=120), st.booleans())
def test_whatever_a_file_has_is_an_image_or_refused(
    tmp_path_factory: pytest.TempPathFactory, content: bytes, marked: bool
) -> None:
    path = tmp_path_factory.getbasetemp() / "any.qcow2"
    path.write_bytes(b"QFI\xfb\0\0\0\3" + content if marked else content)
    try:
        size = read_image(path).size
    except CannotStart as error:
        size, said = 0, str(error)
    assert size >= 1 << 20 or "cannot be a guest's image: " in said


def test_what_a_guest_says_of_its_kernel_stays_short(machine: Machine) -> None:
    """Its image may come from a stranger, and the record goes to others."""
    said = b"6.1\x1b[2J" + b"x" * 1_000_000
    machine.answers["guest-exec"] = lambda **_: {"pid": 1}
    machine.answers["guest-exec-status"] = lambda pid: {
        "exited": True,
        "exitcode": 0,
        "out-data": base64.b64encode(said).decode(),
    }
    guest = OwnGuest(machine.domain, machine.agent(), 10.0, {"process": 10.1}, {}, tools=None)
    kernel = guest.facts().details["guest_kernel"]
    assert len(kernel) <= LONGEST
    assert kernel.isprintable()
    assert kernel.startswith("6.1")
