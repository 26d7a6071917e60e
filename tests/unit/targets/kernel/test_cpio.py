"""The archive can be read by others, and is reproducible."""

import shutil
import subprocess

import pytest

from pytest_vperf.targets.kernel.guest_kernel import Archive


def example():
    archive = Archive()
    archive.folder("dev")
    archive.device("dev/console", 5, 1)
    archive.file("init", b"#!/bin/sh\n", 0o755)
    archive.file("odd", b"12345")
    return archive.bytes()


def test_equal_input_gives_equal_bytes_and_every_entry_is_aligned():
    assert example() == example()
    assert len(example()) % 4 == 0
    assert example().startswith(b"070701")
    assert example().endswith(b"TRAILER!!!\0\0\0\0")


@pytest.mark.skipif(shutil.which("busybox") is None, reason="busybox is not installed")
def test_another_reader_finds_the_files(tmp_path):
    subprocess.run(
        ["busybox", "cpio", "-i", "init", "odd"],
        input=example(),
        cwd=tmp_path,
        check=True,
        capture_output=True,
    )
    assert (tmp_path / "init").read_bytes() == b"#!/bin/sh\n"
    assert (tmp_path / "init").stat().st_mode & 0o777 == 0o755
    assert (tmp_path / "odd").read_bytes() == b"12345"
