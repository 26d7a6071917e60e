"""Loop devices: a device that losetup prints counts, whatever its status."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from pytest_vperf.machine import mounts

if TYPE_CHECKING:
    from pathlib import Path

# What losetup does with --direct-io=on where the file system cannot: it attaches, prints, and fails
# (util-linux 2.31, sys-utils/losetup.c, after "lo_set_dio"). No kernel of today lets it come so far.
OLD = """#!/bin/sh
echo "$*" >>CALLS
echo /dev/loop77
case "$*" in *direct-io*) echo "losetup: /dev/loop77: set direct io failed: Invalid argument" >&2; exit 1;; esac
"""
NONE = """#!/bin/sh
echo "losetup: cannot find an unused loop device" >&2
exit 1
"""


def put(folder: Path, monkeypatch: pytest.MonkeyPatch, script: str) -> Path:
    calls = folder / "calls"
    program = folder / "losetup"
    program.write_text(script.replace("CALLS", str(calls)))
    program.chmod(0o755)
    monkeypatch.setenv("PATH", f"{folder}:/usr/bin:/bin")
    return calls


def test_a_device_that_was_attached_without_direct_io_is_not_attached_twice(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    calls = put(tmp_path, monkeypatch, OLD)
    assert mounts.attach_loop(tmp_path / "image") == "/dev/loop77"
    assert len(calls.read_text().splitlines()) == 1


def test_without_a_device_losetups_message_is_shown(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    put(tmp_path, monkeypatch, NONE)
    with pytest.raises(OSError, match="losetup: cannot find an unused loop device"):
        mounts.attach_loop(tmp_path / "image")
