"""No archive, however made, is read endlessly or wrongly, or fails without a message."""

from __future__ import annotations

import subprocess
import tarfile
import tempfile
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pytest_vperf.targets.base import CannotStart
from pytest_vperf.targets.image import rootfs
from pytest_vperf.targets.image.tar import Tree, members


def header(size: int | None = None, kind: bytes = tarfile.REGTYPE) -> bytes:
    """A member's header, with any size in GNU's base-256 encoding."""
    entry = tarfile.TarInfo("name")
    entry.type = kind
    block = bytearray(entry.tobuf(tarfile.GNU_FORMAT)[:512])
    if size is not None:
        first = b"\xff" if size < 0 else b"\x80"
        block[124:136] = first + (size % 256**11).to_bytes(11, "big")
        block[148:156] = b" " * 8
        block[148:156] = b"%06o\0 " % sum(block)
    return bytes(block)


def extended(records: bytes, times: int = 1) -> bytes:
    one = header(len(records), tarfile.XHDTYPE) + records.ljust(512, b"\0")
    return one * times + header()


@pytest.mark.parametrize(
    "content",
    [
        header(-512),
        header(-1024),
        header(2**63),
        header(2**80),
        header(2**40, tarfile.XHDTYPE),
        header(2**70, tarfile.XHDTYPE),
        header(-1000, tarfile.XHDTYPE),
        extended(b"12 size=-99\n"),
        extended(b"12 path=abc\n", 3000),
        extended(b"22 GNU.sparse.major=1\n22 GNU.sparse.minor=0\n25 GNU.sparse.realsize=9\n"),
    ],
)
def test_made_up_headers_are_refused(tmp_path: Path, content: bytes) -> None:
    path = tmp_path / "image.tar"
    path.write_bytes(content + bytes(1024))
    for read in (Tree, rootfs.from_tar):
        with pytest.raises(CannotStart, match=r"image\.tar (is not a whole tar|cannot be read)"):
            read(path)


@given(
    st.integers(-(2**87), 2**87), st.sampled_from([tarfile.REGTYPE, tarfile.XHDTYPE, b"L", b"S"])
)
def test_any_member_size_is_read_or_refused(size: int, kind: bytes) -> None:
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "image.tar"
        path.write_bytes(header(size, kind) + bytes(1024))
        try:
            found = list(members(path))
        except CannotStart:
            return
        assert len(found) <= 3


def test_a_sparse_file_is_refused_and_not_read_as_another(tmp_path: Path) -> None:
    with (tmp_path / "file").open("wb") as stream:
        stream.truncate(1 << 20)
    path = tmp_path / "image.tar"
    subprocess.run(["tar", "--sparse", "-cf", path, "-C", tmp_path, "file"], check=True)
    with pytest.raises(CannotStart, match="has the sparse file 'file': write it without --sparse"):
        Tree(path)
