"""A control group of the run: a refusal is "not measured", and no process stays in it."""

from __future__ import annotations

import errno
import os
import subprocess
from typing import TYPE_CHECKING

import pytest

from pytest_vperf.machine import cgroups
from pytest_vperf.machine.runs import Run
from pytest_vperf.targets import control_group
from pytest_vperf.targets.base import CannotStart, Unavailable
from pytest_vperf.targets.control_group import ControlGroup, MemoryGroup
from pytest_vperf.targets.limits import Limits

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path


@pytest.fixture
def run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Run]:
    monkeypatch.setenv("VPERF_RUNS_DIR", str(tmp_path / "runs"))
    with Run.begin() as run:
        yield run


@pytest.mark.parametrize(
    ("uid", "remedy"), [(0, "in a container, run it with --privileged"), (1000, "run as root")]
)
@pytest.mark.parametrize("number", [errno.EROFS, errno.EBUSY, errno.EACCES])
def test_a_refused_group_is_not_measured(
    run: Run, monkeypatch: pytest.MonkeyPatch, tmp_path: Path, number: int, uid: int, remedy: str
) -> None:
    def refuse(point: Path, *_: object) -> None:
        raise OSError(number, os.strerror(number), str(point))

    monkeypatch.setattr(os, "geteuid", lambda: uid)
    monkeypatch.setattr(control_group, "_place", lambda *_: (tmp_path, 2))
    monkeypatch.setattr(control_group, "_make", refuse)
    with pytest.raises(Unavailable, match=f"cannot be written: .*{remedy}") as caught:
        ControlGroup(run, Limits(cpu_shares=512), "host")
    assert caught.value.target == "host"


@pytest.fixture
def group(run: Run) -> Iterator[ControlGroup]:
    if os.geteuid() != 0:
        pytest.skip("control groups need root")
    try:
        made = ControlGroup(run, Limits(cpu_shares=1024), "host")
    except Unavailable as error:
        pytest.skip(str(error))
    yield made
    made.close()


def test_a_process_that_hides_goes_with_its_group(group: ControlGroup, run: Run) -> None:
    hidden = subprocess.Popen(
        group.entered(["sh", "-c", "echo; exec env -i sleep 600"]),
        stdout=subprocess.PIPE,
        start_new_session=True,
        cwd="/",
    )
    assert hidden.stdout is not None
    with hidden:
        assert hidden.stdout.readline() == b"\n"
        group.close()
        assert hidden.wait(5) == -9
    assert cgroups.named(run.cgroup) == []


def test_an_ended_machine_is_not_a_member(group: ControlGroup) -> None:
    ended = subprocess.Popen(["true"])
    ended.wait()
    with pytest.raises(CannotStart, match=f"host: process {ended.pid} has ended"):
        group.check_member(ended.pid)


def test_a_process_of_another_pid_namespace_gets_no_signal(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Version 2 lists it as 0 (admin-guide/cgroup-v2, "Namespace"), which to kill(2) is the caller's own group."""
    killed: list[int] = []

    def ended(pid: int, number: int) -> None:
        killed.append(pid)
        (tmp_path / "cgroup.procs").write_text("0\n")

    monkeypatch.setattr(os, "kill", ended)
    (tmp_path / "cgroup.procs").write_text("0\n4242\n0\n")
    control_group._end_members(tmp_path)
    assert killed == [4242]
    shared = object.__new__(MemoryGroup)
    shared._folder = tmp_path
    assert shared.processes == []
    (tmp_path / "cgroup.procs").write_text("0\n7\n")
    assert shared.processes == [7]
