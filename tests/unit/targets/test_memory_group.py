"""A shared control group: its limit, which process the kernel kills first, and its removal with all its members."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from pathlib import Path
from types import SimpleNamespace
from typing import TYPE_CHECKING

import pytest

from pytest_vperf.machine import cgroups, leftovers
from pytest_vperf.machine.runs import Run
from pytest_vperf.targets import control_group
from pytest_vperf.targets.base import CannotStart, Unavailable
from pytest_vperf.targets.control_group import SETTLED, STARTING, MemoryGroup, set_score
from pytest_vperf.targets.limits import Limits
from pytest_vperf.targets.pod.place import Here

if TYPE_CHECKING:
    from collections.abc import Iterator

MIB = 1 << 20
#: At the end of its input it allocates so many MiB, says so, and stays.
TAKES = (
    "import sys, time; sys.stdin.read(); x = b'x' * (int(sys.argv[1]) << 20)\n"
    "print('has', flush=True); time.sleep(60)"
)


@pytest.fixture
def run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Run]:
    monkeypatch.setenv("VPERF_RUNS_DIR", str(tmp_path / "runs"))
    with Run.begin() as run:
        yield run


@pytest.fixture
def group(run: Run) -> Iterator[MemoryGroup]:
    if os.geteuid() != 0:
        pytest.skip("control groups need root")
    try:
        made = MemoryGroup(run, 96 * MIB, "pod")
    except Unavailable as error:
        pytest.skip(str(error))
    yield made
    made.close()
    assert cgroups.named(run.cgroup) == []


def taker(group: MemoryGroup, size: int) -> subprocess.Popen[bytes]:
    """Allocates nothing before `has_it` lets it."""
    return subprocess.Popen(
        group.entered([sys.executable, "-S", "-c", TAKES, str(size)]),
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
    )


def has_it(process: subprocess.Popen[bytes]) -> bool:
    assert process.stdout is not None
    if process.stdin is not None:
        process.stdin.close()
    return process.stdout.readline() == b"has\n"


def test_the_newest_is_ended_first(group: MemoryGroup) -> None:
    with taker(group, 50) as old:
        assert has_it(old)
        set_score(old.pid, SETTLED)
        assert group.processes == [old.pid]
        assert 50 * MIB < group.used <= 96 * MIB
        assert group.kills == 0
        with taker(group, 80) as new:
            set_score(new.pid, STARTING)
            assert not has_it(new)
            assert new.wait(5) == -9
        assert group.kills == 1
        assert old.poll() is None
        group.close()
        assert old.wait(5) == -9


def test_sharing_a_scope_does_not_end_it(group: MemoryGroup) -> None:
    member = group.member()
    assert dict(member.details) == {
        f"shared_{name}": value for name, value in group._group.details.items()
    }
    assert f"{96 * MIB}" in member.details.values()
    place = Here(member)
    assert place.group(None, Limits(), "pod") is member  # type: ignore[arg-type]
    with pytest.raises(
        CannotStart, match="pod: a pod in a shared control group cannot have limits of its own"
    ):
        place.group(None, Limits(cpus=1.0), "pod")  # type: ignore[arg-type]
    process = subprocess.Popen(member.entered(["sleep", "60"]))
    deadline = time.monotonic() + 5
    while process.pid not in group.processes and time.monotonic() < deadline:
        time.sleep(0.01)
    member.check_member(process.pid)
    member.close()
    assert process.poll() is None
    group.end([process.pid])
    assert process.wait(5) == -9


def test_groups_of_those_that_make_their_own(group: MemoryGroup) -> None:
    """An engine's containers and libvirt's machines have their groups below it."""
    path = group.everywhere()
    assert path == group.path
    points = set(cgroups.hierarchies().values())
    assert all((point / path.lstrip("/")).is_dir() for point in points)
    below, version = group._group.place("memory")
    inner = below / "container"
    inner.mkdir()
    with subprocess.Popen(["sleep", "60"]) as process:
        (inner / "cgroup.procs").write_text(str(process.pid))
        assert group.processes == [process.pid]
        assert process.pid in cgroups.members(group.path.lstrip("/").partition(".")[0])
        group.close()
        assert process.wait(5) == -9
    assert version in (1, 2)


def test_a_hierarchy_that_controllers_share_has_processors(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A cpuset of version 1 without CPUs accepts no process, whichever controller the group was made for."""
    for file, text in (("cpuset.cpus", "0-1\n"), ("cpuset.mems", "0\n")):
        (tmp_path / file).write_text(text)
    shared = object.__new__(MemoryGroup)
    shared._group = SimpleNamespace(name="vperf-1.density1")  # type: ignore[assignment]
    monkeypatch.setattr(
        cgroups, "hierarchies", lambda: dict.fromkeys(("memory", "cpuset", "cpu"), tmp_path)
    )
    made = tmp_path / "vperf-1.density1"
    made.mkdir()  # as the memory's already
    for file in ("cpuset.cpus", "cpuset.mems"):
        (made / file).write_text("\n")
    assert shared.everywhere() == "/vperf-1.density1"
    assert (made / "cpuset.cpus").read_text() == "0-1\n"
    assert (made / "cpuset.mems").read_text() == "0\n"


def test_a_group_below_that_is_gone_counts(group: MemoryGroup) -> None:
    """libvirt removes a machine's group as soon as the machine has ended."""
    inner = group._group.place("memory")[0] / "machine"
    inner.mkdir()
    joined = ["sh", "-c", f'echo $$ >{inner}/cgroup.procs && exec "$@"', "sh"]
    for number in (1, 2):
        command = [*joined, sys.executable, "-S", "-c", TAKES, "150"]
        with subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE) as process:
            assert not has_it(process)
            assert process.wait(5) == -9
        if number == 1:
            assert group.kills == 1
    assert cgroups.remove(inner) == ""
    assert group.kills == 2
    assert group.kills == 2


def test_an_old_kernel_is_told_to_account_hierarchically(tmp_path: Path) -> None:
    """Before Linux 5.11, without systemd: otherwise containers and libvirt's machines have no limit."""
    control_group._hold_below(tmp_path, "pod")  # a kernel without the file
    assert list(tmp_path.iterdir()) == []
    switch = tmp_path / "memory.use_hierarchy"
    switch.write_text("0\n")
    control_group._hold_below(tmp_path, "pod")
    assert switch.read_text() == "1"


def test_leftovers_of_a_killed_run_are_found(group: MemoryGroup, run: Run) -> None:
    found = [leftover.what for leftover in leftovers._of_run(run.folder)]
    assert any(group.path.lstrip("/") in what for what in found)


def test_the_oom_score_of_an_ended_process_is_ignored() -> None:
    set_score(1 << 30, STARTING)
    with subprocess.Popen(["sleep", "60"]) as process:
        set_score(process.pid, SETTLED)
        assert Path(f"/proc/{process.pid}/oom_score_adj").read_text() == "500\n"
        process.kill()
