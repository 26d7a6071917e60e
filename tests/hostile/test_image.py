"""An image that somebody else made is unpacked within bounds or refused with a message, and leaves nothing behind."""

from __future__ import annotations

import io
import os
import shutil
import stat
import tarfile
from pathlib import Path

import pytest
from attacks import CONTROL, ROOM, ends_within, grows_less_than

from pytest_vperf.targets.base import CannotStart
from pytest_vperf.targets.image import rootfs
from pytest_vperf.targets.image.tar import Tree, unpacked

#: Seconds that an attack may take on a busy machine.
LONG = 60.0


@pytest.fixture(autouse=True)
def cached(tmp_path, monkeypatch):
    """The cache is empty, and a refused image leaves it so."""
    folder = tmp_path / "cache"
    folder.mkdir(mode=0o700)
    monkeypatch.setenv("VPERF_CACHE_DIR", str(folder))
    yield folder
    shutil.rmtree(folder)


@pytest.fixture
def pack(tmp_path):
    def pack(*members: tuple[str, bytes, bytes | str]):
        path = tmp_path / "enemy.tar"
        with tarfile.open(path, "w:", format=tarfile.PAX_FORMAT) as archive:
            for name, kind, content in members:
                made = tarfile.TarInfo(name)
                made.type, made.mode = kind, 0o6777
                if isinstance(content, str):
                    made.linkname = content
                    archive.addfile(made)
                else:
                    made.size = len(content)
                    archive.addfile(made, io.BytesIO(content))
        return path

    return pack


FILE, LINK, HARD, FOLDER = tarfile.REGTYPE, tarfile.SYMTYPE, tarfile.LNKTYPE, tarfile.DIRTYPE


def _unpack(path):
    source = rootfs.from_tar(path)
    return unpacked(Tree(source.path), source.sha256)


@pytest.mark.parametrize(
    "members",
    [
        [("deep/" * 5000 + "file", FILE, b"x")],
        [(f"{'deep/' * 200}{n}/{'deep/' * 800}", FOLDER, "") for n in range(20)],
        [("../outside", FILE, b"x")],
        [("folder/../../outside", FILE, b"x")],
        [("link", LINK, "/"), ("link/etc/cron.d/owned", HARD, "/etc/shadow")],
        [("other", HARD, "../../../etc/shadow")],
        [("bin", LINK, "bin"), ("bin/sh", FILE, b"x")],
    ],
    ids=["deep", "deep-often", "outside", "outside-below", "through-a-link", "hard-link", "loop"],
)
def test_a_tree_that_no_image_has_is_refused(pack, cached, tmp_path, members):
    path = pack(*members)
    with ends_within(LONG), grows_less_than(ROOM), pytest.raises(CannotStart) as caught:
        _unpack(path)
    assert str(path) in str(caught.value)
    assert len(str(caught.value)) < 1000, "a name of 25,000 characters is no message"
    assert _drafts(cached) == []
    assert not (tmp_path / "outside").exists()


def test_hard_links_do_not_multiply_a_file(pack, cached):
    """One file of 16 MiB with two thousand names would be 32 GiB."""
    content = bytes(16 << 20)
    path = pack(("file", FILE, content), *((f"name{n}", HARD, "file") for n in range(2000)))
    before = os.statvfs(cached).f_bavail
    with ends_within(LONG), grows_less_than(ROOM):
        try:
            root = _unpack(path)
        except CannotStart as error:
            assert str(path) in str(error)  # noqa: PT017 - both ways are right: refused, or one file with its names
        else:
            blocks = {each.stat().st_ino: each.stat().st_blocks for each in root.iterdir()}
            assert sum(blocks.values()) * 512 < 64 << 20
    assert (before - os.statvfs(cached).f_bavail) * os.statvfs(cached).f_frsize < 1 << 30
    assert _drafts(cached) == []


def test_a_header_that_fills_the_memory_is_refused(tmp_path):
    """Headers of PAX and GNU hold the name of what follows; a file with a hole is as long as it likes."""
    for kind in (tarfile.XHDTYPE, tarfile.XGLTYPE, tarfile.GNUTYPE_LONGNAME):
        made = tarfile.TarInfo("name")
        made.type, made.size = kind, 2 << 30
        path = tmp_path / "enemy.tar"
        path.write_bytes(made.tobuf(tarfile.GNU_FORMAT))
        os.truncate(path, 4 << 30)
        with ends_within(LONG), grows_less_than(ROOM), pytest.raises(CannotStart) as caught:
            _unpack(path)
        assert "a header has 2147483648 bytes" in str(caught.value)


def test_no_file_of_an_image_has_privileges(pack):
    root = _unpack(
        pack(
            ("bin/su", FILE, b"#!/bin/sh\n"),
            ("dev/mem", tarfile.CHRTYPE, ""),
            ("tmp", FOLDER, ""),
            ("etc/shadow", LINK, "/../../../../etc/shadow"),
            ("bin/again", HARD, "bin/su"),
        )
    )
    for each in root.rglob("*"):
        status = each.lstat()
        assert stat.S_ISREG(status.st_mode) or stat.S_ISDIR(status.st_mode) or each.is_symlink()
        if not each.is_symlink():
            assert stat.S_IMODE(status.st_mode) in (0o755, 0o644)
        assert Path(os.path.realpath(each)).is_relative_to(root)


def test_names_are_escaped_in_messages(pack):
    with pytest.raises(CannotStart) as caught:
        _unpack(pack(("\033]0;owned\007/../\x9b31m", FILE, b"x")))
    assert not CONTROL.search(str(caught.value))


@pytest.mark.parametrize("size", [-1, 1 << 40, (1 << 63) - 1])
def test_a_wrong_size_is_refused(tmp_path, cached, size):
    made = tarfile.TarInfo("file")
    made.size = size
    path = tmp_path / "enemy.tar"
    path.write_bytes(made.tobuf(tarfile.GNU_FORMAT) + bytes(10240))
    with ends_within(LONG), grows_less_than(ROOM), pytest.raises(CannotStart, match=r"enemy\.tar"):
        _unpack(path)
    assert _drafts(cached) == []


def _drafts(cache):
    """What was begun in the cache and is not whole."""
    return list(cache.glob("*/.*"))
