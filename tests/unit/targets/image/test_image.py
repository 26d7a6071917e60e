"""The root file system: reproducible, and clear errors for what is not one."""

from __future__ import annotations

import gzip
import io
import tarfile
from pathlib import Path

import pytest

from pytest_vperf.machine.cache import file_sha256
from pytest_vperf.targets.base import CannotStart, Unavailable
from pytest_vperf.targets.image import busybox
from pytest_vperf.targets.image import rootfs as image


@pytest.fixture
def program() -> Path:
    for path in (Path("/bin/busybox"), Path("/usr/bin/busybox")):
        if path.is_file() and busybox.is_static(path):
            return path
    pytest.skip("no static busybox is installed (to mend it: apt-get install busybox-static)")


@pytest.fixture(autouse=True)
def own_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("VPERF_CACHE_DIR", str(tmp_path / "cache"))


def write_tar(path: Path, *names: str) -> None:
    with tarfile.open(path, "w") as archive:
        for name in names:
            entry = tarfile.TarInfo(name)
            entry.size = 3
            archive.addfile(entry, io.BytesIO(b"abc"))


def test_equal_inputs_give_equal_bytes(program: Path, tmp_path: Path) -> None:
    names = busybox.applets(program)
    for copy in ("a", "b"):
        busybox.write_tar(program, names, tmp_path / copy)
    assert file_sha256(tmp_path / "a") == file_sha256(tmp_path / "b")
    rootfs = image.default_rootfs()
    assert rootfs.sha256 == file_sha256(tmp_path / "a") == file_sha256(rootfs.path)
    assert rootfs.name.startswith("busybox v")


def test_the_tree_is_root_s_and_has_what_programs_expect(program: Path) -> None:
    with tarfile.open(image.default_rootfs().path, "r:") as archive:
        members = {member.name: member for member in archive}
    assert list(members) == sorted(members)
    assert {(m.uid, m.gid, m.uname, m.gname, m.mtime) for m in members.values()} == {
        (0, 0, "root", "root", 0)
    }
    assert members["tmp"].mode == members["var/tmp"].mode == 0o1777
    assert all(members[name].isdir() for name in ("proc", "sys", "dev", "run", "root"))
    assert all(members[f"etc/{name}"].isfile() for name in ("passwd", "group", "hosts"))
    assert members["bin/sh"].linkname == "/bin/busybox"
    assert members["bin/busybox"].mode == 0o755


def test_static_and_dynamic_programs_are_told_apart(program: Path, tmp_path: Path) -> None:
    assert busybox.is_static(program)
    assert not busybox.is_static(Path("/bin/sh").resolve())
    text = tmp_path / "text"
    text.write_text("no program")
    assert not busybox.is_static(text)


def test_a_missing_busybox_that_cannot_be_fetched_is_reported(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(busybox, "_INSTALLED", (tmp_path / "busybox",))
    monkeypatch.setattr(busybox, "find_program", lambda name: None)
    with pytest.raises(Unavailable) as caught:
        image.default_rootfs()
    assert str(caught.value) == (
        "no static busybox is installed (to mend it: apt-get install busybox-static)"
    )


def test_a_users_tar_file_is_accepted(tmp_path: Path) -> None:
    path = tmp_path / "mine.tar"
    write_tar(path, "bin/sh", "etc/passwd")
    assert image.from_tar(path) == image.Rootfs(path, file_sha256(path), str(path))


def test_archives_without_a_root_file_system_are_refused(tmp_path: Path) -> None:
    path = tmp_path / "x.tar"
    with pytest.raises(CannotStart, match=r"x\.tar cannot be read: No such file or directory$"):
        image.from_tar(path)
    path.write_bytes(b"not a tar archive at all" * 100)
    with pytest.raises(CannotStart, match=r"x\.tar is not a whole tar archive: "):
        image.from_tar(path)
    write_tar(path, "bin/sh")
    whole = path.read_bytes()
    path.write_bytes(whole[:514])
    with pytest.raises(CannotStart, match=r"x\.tar is not a whole tar archive: unexpected end"):
        image.from_tar(path)
    path.write_bytes(gzip.compress(whole))
    with pytest.raises(CannotStart, match="it is compressed; unpack the compression first"):
        image.from_tar(path)
    write_tar(path)
    with pytest.raises(CannotStart, match="is an empty tar archive"):
        image.from_tar(path)
    write_tar(path, "manifest.json", "layer/layer.tar")
    with pytest.raises(CannotStart, match="was written by docker save"):
        image.from_tar(path)
