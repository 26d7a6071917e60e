"""Telling dead runs from live ones by processes and folders, without an engine or root."""

from __future__ import annotations

import os
import shutil
import stat
import subprocess
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING

import psutil
import pytest

from pytest_vperf.machine import leftovers, mounts
from pytest_vperf.machine.processes import gone
from pytest_vperf.machine.runs import MARK, MARK_FOLDER, Run, remove_tree, runs_folder

if TYPE_CHECKING:
    from collections.abc import Iterator

KILLED = (
    "import os, subprocess, sys\n"
    "from pytest_vperf.machine.runs import Run\n"
    "run = Run.begin()\n"
    "child = subprocess.Popen(['sleep', '600'], env=run.environment, start_new_session=True,"
    " stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)\n"
    "print(run.id, child.pid, flush=True)\n"
    "os.kill(os.getpid(), 9)\n"
)


@pytest.fixture(autouse=True)
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("VPERF_RUNS_DIR", str(tmp_path / "runs"))
    return tmp_path / "runs"


@pytest.fixture
def killed() -> Iterator[tuple[str, psutil.Process]]:
    done = subprocess.run([sys.executable, "-c", KILLED], capture_output=True, text=True)
    assert done.returncode == -9, done.stderr
    run, pid = done.stdout.split()
    process = psutil.Process(int(pid))
    yield run, process
    if not gone(process):
        process.kill()


def kinds(found: list[leftovers.Leftover]) -> list[tuple[str, str]]:
    return [(leftover.run, leftover.kind) for leftover in found]


def test_a_killed_run_is_found_shown_and_removed(
    killed: tuple[str, psutil.Process], home: Path
) -> None:
    run, process = killed
    found = leftovers.find()
    assert [str(leftover) for leftover in found] == [
        f"run {run}: process {process.pid}: sleep 600",
        f"run {run}: folder {home}/run-{run}",
    ]
    assert leftovers.remove(found) == []
    assert gone(process)
    assert leftovers.find() == []
    assert list(home.iterdir()) == []


def test_the_next_run_sweeps_and_reports_it(killed: tuple[str, psutil.Process]) -> None:
    run, process = killed
    assert kinds(leftovers.sweep()) == [(run, "process"), (run, "folder")]
    assert gone(process)
    assert leftovers.sweep() == []


def test_processes_are_found_when_the_folder_is_gone(
    killed: tuple[str, psutil.Process], home: Path
) -> None:
    run, process = killed
    leftovers.remove_folder(home / f"run-{run}")
    assert kinds(leftovers.find()) == [(run, "process")]
    leftovers.sweep()
    assert gone(process)


def test_a_live_run_is_not_touched(killed: tuple[str, psutil.Process]) -> None:
    with Run.begin() as run:
        child = subprocess.Popen(["sleep", "600"], env=run.environment, cwd=run.folder)
        try:
            leftovers.sweep()
            assert gone(killed[1])
            assert child.poll() is None
            assert run.folder.is_dir()
        finally:
            child.kill()
            child.wait()


def test_runs_kept_elsewhere_are_not_judged(
    killed: tuple[str, psutil.Process], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("VPERF_RUNS_DIR", str(tmp_path / "other"))
    assert leftovers.find() == []


def test_this_process_and_its_ancestors_are_spared(
    killed: tuple[str, psutil.Process], home: Path
) -> None:
    run, process = killed
    script = (
        "from pytest_vperf.machine import leftovers\n"
        "import os, sys\n"
        f"assert os.environ['{MARK}'] == sys.argv[1]\n"
        "print([l.what for l in leftovers.sweep() if l.kind == 'process'])\n"
    )
    marks = {MARK: run, MARK_FOLDER: str(home / f"run-{run}")}
    done = subprocess.run(
        ["sh", "-c", f'"$2" -c "$1" {run}; echo lives', "sh", script, sys.executable],
        env={**os.environ, **marks},
        capture_output=True,
        text=True,
        check=True,
    )
    assert done.stdout == f"['process {process.pid}: sleep 600']\nlives\n", done.stderr


def test_a_mark_without_a_folder_is_not_a_leftover(home: Path) -> None:
    child = subprocess.Popen(["sleep", "600"], env={**os.environ, MARK: "01234567"})
    try:
        assert leftovers.find() == []
    finally:
        child.kill()
        child.wait()


@pytest.mark.parametrize("killed_after", ["mkdir", "open", "write"])
def test_a_folder_whose_maker_was_killed_goes_and_one_that_is_being_made_stays(
    home: Path, killed_after: str
) -> None:
    """Its maker runs in a process of its own, until the end of its input."""
    program = f"""
import os, sys
from pathlib import Path
from pytest_vperf.machine.runs import Run
real = getattr(os, {killed_after!r})
def wait(path, *words, **more):
    done = real(path, *words, **more)
    if {killed_after == "write"} or ".run-" in str(path):
        print("there", flush=True)
        sys.stdin.read()
    return done
setattr(os, {killed_after!r}, wait)
Run.begin()
"""
    with subprocess.Popen(
        [sys.executable, "-c", program],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    ) as maker:
        assert maker.stdout is not None
        assert maker.stdout.readline() == "there\n"
        (draft,) = home.iterdir()
        assert leftovers.find() == []
        maker.kill()
    run = draft.name.removeprefix(".run-")
    assert [str(leftover) for leftover in leftovers.find()] == [f"run {run}: folder {draft}"]
    assert leftovers.remove(leftovers.find()) == []
    assert list(home.iterdir()) == []


@pytest.mark.parametrize("when", ["open", "write", "fsync", "rename"])
def test_a_run_that_is_interrupted_while_it_begins_leaves_nothing(
    home: Path, monkeypatch: pytest.MonkeyPatch, when: str
) -> None:
    real = getattr(os, when)

    def interrupt(path: object, *words: object, **more: object) -> object:
        done = real(path, *words, **more)
        if when != "open" or ".run-" in str(path):
            monkeypatch.setattr(os, when, real)  # once: removing it opens it, too
            raise KeyboardInterrupt
        return done

    monkeypatch.setattr(os, when, interrupt)
    with pytest.raises(KeyboardInterrupt):
        Run.begin()
    monkeypatch.undo()
    assert [each.name for each in home.iterdir()] == []


def test_where_files_have_no_locks_a_new_folder_is_given_time(
    home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(_: Path) -> bool:
        raise OSError

    monkeypatch.setattr(leftovers, "nobody_begins", refuse)
    draft = home / ".run-01234567"
    draft.mkdir(parents=True)
    assert leftovers.find() == []
    os.utime(draft, (time.time() - 3600,) * 2)
    assert [str(leftover) for leftover in leftovers.find()] == [f"run 01234567: folder {draft}"]
    assert leftovers.remove(leftovers.find()) == []
    assert not draft.exists()


@pytest.mark.parametrize("name", ["run-2024-01", "run-0123456", "run-012345678", "run-0123ABCD"])
def test_a_folder_with_another_name_is_not_ours(home: Path, name: str) -> None:
    (home / name).mkdir(parents=True)
    (home / name / "owner").touch()
    assert leftovers.find() == []


def test_a_folder_without_an_owner_file_is_not_ours(home: Path) -> None:
    (home / "run-01234567").mkdir(parents=True)
    (home / "run-89abcdef" / "owner").mkdir(parents=True)
    assert leftovers.find() == []


@pytest.mark.parametrize(
    "content",
    ["", "Ada", "[1]", '{"pid": 1}', "[" * 100_000, "\0" * 100],
    ids=["empty", "text", "list", "another", "nested", "binary"],
)
def test_a_folder_with_another_owner_file_is_not_ours(home: Path, content: str) -> None:
    (home / "run-01234567").mkdir(parents=True)
    (home / "run-01234567" / "owner").write_text(content)
    assert leftovers.find() == []


def test_a_hidden_folder_with_anything_else_in_it_is_not_ours(home: Path) -> None:
    draft = home / ".run-01234567"
    draft.mkdir(parents=True)
    (draft / "thesis.txt").touch()
    os.utime(draft, (time.time() - 3600,) * 2)
    assert leftovers.find() == []


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can give a folder away")
@pytest.mark.parametrize("there", [True, False])
def test_runs_in_another_users_folder_are_refused(home: Path, there: bool) -> None:
    """That user could replace it at any moment."""
    above = home.parent / "above"
    (above / "runs" if there else above).mkdir(parents=True, mode=0o700)
    os.chown(above, 54321, -1)
    os.environ["VPERF_RUNS_DIR"] = str(above / "runs")  # the fixture `home` restores it
    with pytest.raises(PermissionError) as caught:
        runs_folder()
    assert str(caught.value) == (
        f"{above} belongs to user 54321, and so who may replace {above}/runs; set VPERF_RUNS_DIR to a folder of yours"
    )
    assert (above / "runs").exists() == there


def test_a_link_is_not_ours(home: Path, tmp_path: Path) -> None:
    kept = tmp_path / "kept"
    kept.mkdir()
    (kept / "owner").touch()
    home.mkdir()
    (home / "run-01234567").symlink_to(kept)
    assert leftovers.find() == []


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can give a folder away")
def test_a_folder_of_another_user_is_not_ours(home: Path) -> None:
    folder = home / "run-01234567"
    folder.mkdir(parents=True)
    (folder / "owner").write_text('{"pid": 1, "command": [], "began": 0}')
    assert [leftover.run for leftover in leftovers.find()] == ["01234567"]
    os.chown(folder, 65534, -1)
    assert leftovers.find() == []


def test_a_half_removed_run_is_still_recognised(
    home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = home / "run-01234567"
    folder.mkdir(parents=True)
    for name in ("owner", "a", "z"):
        (folder / name).touch()
    (folder / "deep").mkdir()
    seen: list[list[Path]] = []
    rmtree = shutil.rmtree

    def interrupted(path: Path, *, ignore_errors: bool = False) -> None:
        seen.append(sorted(folder.iterdir()))
        rmtree(path, ignore_errors=ignore_errors)

    monkeypatch.setattr(shutil, "rmtree", interrupted)
    remove_tree(folder)
    assert seen[-1] == [folder / "owner"]
    assert not folder.exists()


def test_the_default_folder_is_private(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, home: Path
) -> None:
    monkeypatch.delenv("VPERF_RUNS_DIR")
    monkeypatch.setattr("pytest_vperf.machine.runs.DEFAULT_PLACE", tmp_path)
    wide = tmp_path / f"vperf-{os.getuid()}"
    wide.mkdir()
    wide.chmod(0o777)
    assert runs_folder() == wide
    assert stat.S_IMODE(wide.stat().st_mode) == 0o700


@pytest.mark.parametrize("mode", [0o720, 0o702, 0o1777])
def test_a_named_folder_that_others_may_write_is_refused(home: Path, mode: int) -> None:
    home.mkdir()
    home.chmod(mode)
    with pytest.raises(PermissionError) as caught:
        Run.begin()
    assert str(caught.value) == (
        f"other users may write to {home}, which VPERF_RUNS_DIR names;"
        f" `chmod go-w {home}`, or set VPERF_RUNS_DIR to a folder that only you may write to"
    )
    assert list(home.iterdir()) == []


def test_a_link_in_place_of_the_runs_folder_is_refused(home: Path, tmp_path: Path) -> None:
    home.symlink_to(tmp_path)
    with pytest.raises(PermissionError) as caught:
        runs_folder()
    assert (
        str(caught.value)
        == f"{home} is a link, not a folder; set VPERF_RUNS_DIR to a folder of yours"
    )


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can give a folder away")
def test_a_runs_folder_of_another_user_is_refused(home: Path) -> None:
    home.mkdir()
    os.chown(home, 54321, -1)
    with pytest.raises(PermissionError) as caught:
        runs_folder()
    assert str(caught.value) == (
        f"{home} belongs to another user (user 54321); set VPERF_RUNS_DIR to a folder of yours"
    )


def test_leftovers_that_cannot_be_removed_are_reported(home: Path) -> None:
    stubborn = leftovers.Leftover("01234567", "mount", "mount /x", lambda: "target is busy")
    broken = leftovers.Leftover("01234567", "process", "process 1", _raise)
    assert leftovers.remove([stubborn, broken]) == [
        "run 01234567: process 1 could not be removed: [Errno 1] no",
        "run 01234567: mount /x could not be removed: target is busy",
    ]


def _raise() -> str:
    raise PermissionError(1, "no")


def test_escaped_mount_points_are_read() -> None:
    line = r"36 35 98:0 /a\040b /mnt/c\134d rw,noatime master:1 - cgroup x rw,cpu,cpuacct"
    assert mounts.parse(line) == mounts.Mount(
        Path("/mnt/c\\d"), "/a b", "cgroup", ("rw", "cpu", "cpuacct")
    )
    assert Path("/proc") in [mount.point for mount in mounts.mounts()]


def test_a_run_that_ends_kills_its_remaining_processes() -> None:
    with Run.begin() as run, Run.begin() as other:
        child = subprocess.Popen(["sleep", "600"], env=run.environment, start_new_session=True)
        others = subprocess.Popen(["sleep", "600"], env=other.environment, start_new_session=True)
        try:
            assert leftovers.end_of_run(run.folder) == []
            assert child.wait(5) == -9
            assert others.poll() is None
            assert run.folder.is_dir()
        finally:
            for process in (child, others):
                process.kill()
                process.wait()


def test_remaining_leftovers_are_found_by_the_next_run(home: Path) -> None:
    run = Run.begin()
    (run.folder / "held").touch()
    run.close(keep=True)
    run.close()
    assert (run.folder / "held").exists()
    assert kinds(leftovers.sweep()) == [(run.id, "folder")]


def test_a_link_above_the_runs_is_followed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "real").mkdir()
    (tmp_path / "link").symlink_to("real")
    monkeypatch.setenv("VPERF_RUNS_DIR", str(tmp_path / "link" / "runs"))
    assert runs_folder() == tmp_path / "real" / "runs"
