"""Disks of the run: missing requirements are reported, never another error."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

import pytest

from pytest_vperf.machine.runs import Run
from pytest_vperf.targets import disks
from pytest_vperf.targets.base import CannotStart, Unavailable
from pytest_vperf.targets.disks import Disks, Here
from pytest_vperf.targets.scope import Scope

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path


@pytest.fixture
def make(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Disks]:
    monkeypatch.setenv("VPERF_RUNS_DIR", str(tmp_path / "runs"))
    with Run.begin() as run:
        yield Disks(Here(run), Scope())


def refuse(folder: Path, monkeypatch: pytest.MonkeyPatch, words: str) -> None:
    program = folder / "losetup"
    program.write_text(f"#!/bin/sh\necho 'losetup: {words}' >&2\nexit 1\n")
    program.chmod(0o755)
    monkeypatch.setenv("PATH", f"{folder}:/usr/bin:/bin")


def test_disks_need_root(make: Disks, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "geteuid", lambda: 1000)
    with pytest.raises(Unavailable, match=r"needs root \(to mend it: run as root\)"):
        make.make()


def test_missing_loop_devices_are_reported(
    make: Disks, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(os, "geteuid", lambda: 0)
    monkeypatch.setattr(disks, "_CONTROL", tmp_path / "loop-control")
    with pytest.raises(
        Unavailable, match=r"this machine has no loop devices: there is no .*modprobe"
    ):
        make.make()


@pytest.mark.parametrize("words", ["image: Permission denied", "cannot: Operation not permitted"])
def test_root_of_a_container_is_told_what_it_lacks(
    make: Disks, monkeypatch: pytest.MonkeyPatch, tmp_path: Path, words: str
) -> None:
    monkeypatch.setattr(os, "geteuid", lambda: 0)
    monkeypatch.setattr(disks, "_CONTROL", tmp_path)
    refuse(tmp_path, monkeypatch, words)
    with pytest.raises(Unavailable, match=f"cannot be made: losetup: {words} .*--privileged"):
        make.make("1 MiB")


def test_a_disk_that_cannot_be_made_leaves_nothing(
    make: Disks, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(os, "geteuid", lambda: 0)
    monkeypatch.setattr(disks, "_CONTROL", tmp_path)
    refuse(tmp_path, monkeypatch, "cannot find an unused loop device")
    with pytest.raises(CannotStart, match="a disk of 1 MiB cannot be made: losetup: cannot find"):
        make.make("1 MiB")
    assert not list(tmp_path.glob("runs/run-*/disk*"))


@pytest.mark.skipif(os.geteuid() != 0, reason="a loop device needs root")
@pytest.mark.skipif(not disks._CONTROL.exists(), reason="this machine has no loop devices")
def test_administrators_programs_need_not_be_on_the_search_path(
    make: Disks, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PATH", "/usr/bin:/bin")  # of `su` without "-"
    try:
        disk = make.make("1 MiB", format="ext4")
    except Unavailable as error:
        pytest.skip(str(error))
    assert disk.format == "ext4"
    disk.close()
