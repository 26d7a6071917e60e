"""Links in an image's tar file: owned by root, dated 0, and never in place of an existing file."""

from __future__ import annotations

import tarfile
from typing import TYPE_CHECKING

from pytest_vperf.targets.image.tar import TarWriter

if TYPE_CHECKING:
    from pathlib import Path


def write(path: Path) -> bytes:
    with TarWriter(path) as archive:
        archive.file("etc/kept", b"content")
        archive.link("etc/kept", "/dev/null")
        archive.link("etc/systemd/system/x.service", "/dev/null")
        archive.link("etc/systemd/system/x.service", "/elsewhere")
        archive.folder("opt")
        archive.link("opt", "/elsewhere")
    return path.read_bytes()


def test_equal_trees_are_equal_bytes(tmp_path: Path) -> None:
    assert write(tmp_path / "a.tar") == write(tmp_path / "b.tar")


def test_a_link_has_its_folders_and_replaces_nothing(tmp_path: Path) -> None:
    write(tmp_path / "a.tar")
    with tarfile.open(tmp_path / "a.tar") as archive:
        members = archive.getmembers()
    assert [(member.name, member.type) for member in members] == [
        ("etc", tarfile.DIRTYPE),
        ("etc/kept", tarfile.REGTYPE),
        ("etc/systemd", tarfile.DIRTYPE),
        ("etc/systemd/system", tarfile.DIRTYPE),
        ("etc/systemd/system/x.service", tarfile.SYMTYPE),
        ("opt", tarfile.DIRTYPE),
    ]
    link = members[4]
    assert (link.linkname, link.mode) == ("/dev/null", 0o777)
    assert {(member.uid, member.gid, member.mtime) for member in members} == {(0, 0, 0)}


def test_a_file_of_the_image_comes_before_a_link_of_ours(tmp_path: Path) -> None:
    """And a link of ours before the image's: the first one stays."""
    with TarWriter(tmp_path / "image.tar") as image:
        image.file("etc/a", b"image")
        image.file("etc/b", b"image")
    with TarWriter(tmp_path / "machine.tar") as machine:
        machine.link("etc/a", "/dev/null")
        machine.copy(tmp_path / "image.tar")
        machine.link("etc/b", "/dev/null")
    with tarfile.open(tmp_path / "machine.tar") as archive:
        assert archive.getmember("etc/a").issym()
        assert archive.getmember("etc/b").isreg()
