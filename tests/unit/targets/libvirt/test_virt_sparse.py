"""Sending a sparse file: it arrives whole, and holes are not sent as zeros."""

from __future__ import annotations

import os
import tempfile
from pathlib import Path

from hypothesis import given
from hypothesis import strategies as st

from pytest_vperf.targets.libvirt.storage import _hole, _send, _skip

#: At least the file system's block size: holes consist of whole blocks.
BLOCK = 1 << 16


def send(path: Path, want: int = 1 << 18) -> tuple[bytes, int]:
    """The file that arrives, and the bytes sent as data, called as by libvirt-python's virStream.sparseSendAll."""
    arrived, sent = bytearray(), 0
    descriptor = os.open(path, os.O_RDONLY)
    try:
        while True:
            in_data, length = _hole(None, descriptor)
            assert length >= 0
            if not in_data and length > 0:
                arrived += bytes(length)
                assert _skip(None, length, descriptor) == 0
                continue
            got = _send(None, min(want, length), descriptor)
            if not got:
                return bytes(arrived), sent
            arrived += got
            sent += len(got)
    finally:
        os.close(descriptor)


@given(
    st.lists(st.tuples(st.integers(0, 5 * BLOCK), st.binary(min_size=1, max_size=300)), max_size=4),
    st.integers(0, 4 * BLOCK),
    st.integers(1, 1 << 18),
)
def test_the_file_arrives_whole(pieces: list[tuple[int, bytes]], more: int, want: int) -> None:
    """Data at any offset, and a hole at the end."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "disk")
        with path.open("wb") as stream:
            for at, data in pieces:
                stream.seek(at)
                stream.write(data)
            stream.truncate(
                max(stream.tell(), *(at + len(data) for at, data in pieces), 0, 0) + more
            )
        arrived, _ = send(path, want)
        assert arrived == path.read_bytes()


def test_holes_are_not_sent(tmp_path: Path) -> None:
    path = tmp_path / "disk"
    with path.open("wb") as stream:
        stream.truncate(64 * BLOCK)
        stream.seek(7 * BLOCK)
        stream.write(b"data")
    arrived, sent = send(path)
    assert arrived == path.read_bytes()
    assert 4 <= sent <= BLOCK


def test_a_file_that_is_one_hole_sends_no_data(tmp_path: Path) -> None:
    path = tmp_path / "disk"
    with path.open("wb") as stream:
        stream.truncate(1 << 32)
    descriptor = os.open(path, os.O_RDONLY)
    try:
        assert _hole(None, descriptor) == (False, 1 << 32)
        _skip(None, 1 << 32, descriptor)
        assert _hole(None, descriptor) == (False, 0)
        assert _send(None, 0, descriptor) == b""
    finally:
        os.close(descriptor)
