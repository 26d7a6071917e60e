"""Control groups that libvirt made for machines and left: which belong to a dead run."""

from __future__ import annotations

import os
import time
from typing import TYPE_CHECKING

import pytest

from pytest_vperf.machine import cgroups, leftovers, runs

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

RUN = "0badcafe"
GROUP = f"qemu-1-vperf-{RUN}-1.libvirt-qemu"


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The default place of the runs' folders."""
    monkeypatch.delenv("VPERF_RUNS_DIR", raising=False)
    monkeypatch.setattr(runs, "DEFAULT_PLACE", tmp_path)
    return runs.runs_folder()


@pytest.fixture
def group(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[..., Path]:
    """Makes a machine's group in the only hierarchy, with an age in seconds and members."""
    root = tmp_path / "cgroup"
    monkeypatch.setattr(cgroups, "hierarchies", lambda: {"cpu": root, "cpuacct": root})

    def make(name: str = GROUP, *, old: float = 120.0, procs: str = "") -> Path:
        folder = root / "machine" / name
        for each in (folder, folder / "emulator"):
            each.mkdir(parents=True)
            (each / "cgroup.procs").touch()
        (folder / "emulator" / "cgroup.procs").write_text(procs)
        os.utime(folder, (time.time() - old,) * 2)
        return folder

    return make


def test_an_empty_group_belongs_to_the_dead_run(home: Path, group: Callable[..., Path]) -> None:
    folder = group()
    group("qemu-2-somebody-else.libvirt-qemu")
    assert [str(leftover) for leftover in leftovers.find()] == [f"run {RUN}: cgroup {folder}"]


@pytest.mark.parametrize("how", [{"old": 5.0}, {"procs": "4711\n"}])
def test_new_groups_and_groups_in_use_are_left_alone(
    home: Path, group: Callable[..., Path], how: dict[str, float | str]
) -> None:
    group(**how)
    assert leftovers.find() == []


def test_a_group_of_a_live_run_is_left_alone(home: Path, group: Callable[..., Path]) -> None:
    with runs.Run.begin() as run:
        group(GROUP.replace(RUN, run.id))
        assert leftovers.find() == []


def test_with_a_custom_runs_folder_groups_are_not_judged(
    home: Path, group: Callable[..., Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Only its folder shows whether a run lives, and a group does not say where that is."""
    group()
    monkeypatch.setenv("VPERF_RUNS_DIR", str(tmp_path / "own"))
    assert leftovers.find() == []
