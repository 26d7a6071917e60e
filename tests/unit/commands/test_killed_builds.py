"""``vperf gate`` and ``vperf bisect`` that are killed while they build: the next run removes what they left."""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import TYPE_CHECKING

import psutil
import pytest
from repositories import TOOL_TEST, git, repository

from pytest_vperf.machine import leftovers, mounts, work_trees
from pytest_vperf.machine.processes import gone
from pytest_vperf.machine.runs import Run

if TYPE_CHECKING:
    from collections.abc import Callable

#: Never ends with the level 111, and notes its shell, outside of the tree.
BUILD = 'if grep -q 111 level; then echo $$ >"$NOTED.draft"; mv "$NOTED.draft" "$NOTED"; sleep 300; fi; cp level out'


@pytest.fixture
def tool(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A repository whose second of three commits takes for ever to build."""
    for name in ("lock", "runs", "temporary", "noted"):
        variable = {"lock": "VPERF_LOCK", "runs": "VPERF_RUNS_DIR", "temporary": "TMPDIR"}
        monkeypatch.setenv(variable.get(name, "NOTED"), str(tmp_path / name))
    (tmp_path / "temporary").mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path / "temporary"))
    (tmp_path / "test_it.py").write_text(TOOL_TEST)
    folder = tmp_path / "tool"
    repository(folder, [100, 111, 120])
    return folder


def wait_for(true: Callable[[], object], what: str) -> None:
    for _ in range(600):
        if true():
            return
        time.sleep(0.1)
    pytest.fail(what)


@pytest.mark.parametrize(
    "words",
    [
        ("gate", "--base=HEAD~1", "--", "test_it.py"),
        ("bisect", "--claim=mine.tool", "--good=HEAD~2", "--bad=HEAD", "--", "test_it.py"),
    ],
    ids=["gate", "bisect"],
)
def test_what_a_killed_command_left_is_removed(tool: Path, words: tuple[str, ...]) -> None:
    before = {process.pid for process in psutil.process_iter()}
    options = [f"--build={BUILD}", "--artefact=env.TOOL=out", "--repository=tool"]
    command = [sys.executable, "-m", "pytest_vperf", words[0], *options, *words[1:]]
    with subprocess.Popen(command, cwd=tool.parent, stderr=subprocess.DEVNULL) as process:
        noted = Path(os.environ["NOTED"])
        wait_for(noted.exists, "the build did not begin")
        family = psutil.Process(process.pid).children(recursive=True)
        shell = psutil.Process(int(noted.read_text()))
        assert leftovers.find() == []  # nothing of a command that lives
        process.kill()
    searching = [each for each in family if "bisect" in " ".join(_command(each))]
    assert bool(searching) == (words[0] == "bisect")
    psutil.wait_procs(searching, timeout=20)
    assert [each for each in searching if not gone(each)] == []

    assert git(tool, "worktree", "list").count("\n") == 1
    assert gone(shell) == (
        words[0] == "bisect"
    )  # it went with its step, and what it started did not
    removed = leftovers.sweep()
    assert {each.kind for each in removed} == {"process", "tree", "folder"}
    assert git(tool, "worktree", "list").count("\n") == 0
    assert list((tool.parent / "temporary").iterdir()) == []
    assert list((tool.parent / "runs").iterdir()) == []
    assert gone(shell)
    assert (tool / "level").read_text().startswith("120 ")
    left = [each for each in psutil.process_iter() if each.pid not in before]
    assert [each for each in left if str(tool.parent) in " ".join(_command(each))] == []


def _command(process: psutil.Process) -> list[str]:
    try:
        return process.cmdline()
    except psutil.Error:
        return []


@pytest.fixture
def run(tool: Path) -> Run:
    return Run.begin()


def dead(run: Run) -> list[leftovers.Leftover]:
    """What is left once the run has ended without removing anything."""
    run.close(keep=True)
    return leftovers.sweep()


def test_a_tree_whose_repository_is_gone_is_removed(run: Run, tool: Path, tmp_path: Path) -> None:
    made = work_trees.make(run, "vperf-gate", tool)
    git(tool, "worktree", "add", "--quiet", "--detach", str(made.tree))
    tool.rename(tmp_path / "moved")
    assert {each.kind for each in dead(run)} == {"tree", "folder"}
    assert not made.folder.exists()


def test_a_folder_that_is_no_longer_ours_is_left_alone(
    run: Run, tool: Path, tmp_path: Path
) -> None:
    """Cleaned away by others, and a link of somebody else has its name now."""
    made = work_trees.make(run, "vperf-gate", tool)
    made.folder.rmdir()
    (tmp_path / "precious").mkdir()
    (tmp_path / "precious/file").touch()
    made.folder.symlink_to(tmp_path / "precious")
    dead(run)
    assert (tmp_path / "precious/file").exists()


def test_only_our_own_tree_of_a_repository_goes(run: Run, tool: Path, tmp_path: Path) -> None:
    """One on a drive that is not mounted now is not forgotten with it."""
    git(tool, "worktree", "add", "--quiet", "--detach", str(tmp_path / "drive"))
    (tmp_path / "drive").rename(tmp_path / "unplugged")
    made = work_trees.make(run, "vperf-gate", tool)
    git(tool, "worktree", "add", "--quiet", "--detach", str(made.tree))
    dead(run)
    assert not made.folder.exists()
    assert "drive" in git(tool, "worktree", "list")
    assert "vperf-gate" not in git(tool, "worktree", "list")


@pytest.mark.parametrize("what", ["folder", "tree"])
def test_a_tree_of_the_user_that_has_our_name_now_is_left_alone(
    run: Run, tool: Path, tmp_path: Path, what: str
) -> None:
    """Git follows the link, and would remove a tree of the same repository with what is not committed there."""
    git(tool, "worktree", "add", "--quiet", "--detach", str(tmp_path / "mine" / "tree"))
    (tmp_path / "mine" / "tree" / "draft").touch()
    made = work_trees.make(run, "vperf-gate", tool)
    if what == "folder":
        made.folder.rmdir()
        made.folder.symlink_to(tmp_path / "mine")
    else:
        made.tree.symlink_to(tmp_path / "mine" / "tree")
    dead(run)
    assert (tmp_path / "mine" / "tree" / "draft").exists()
    assert made.tree.is_dir() == (what == "folder")


@pytest.mark.skipif(os.geteuid() != 0, reason="only root mounts")
def test_what_a_build_mounted_in_its_tree_is_unmounted_before_the_tree_goes(
    run: Run, tool: Path, tmp_path: Path
) -> None:
    made = work_trees.make(run, "vperf-gate", tool)
    git(tool, "worktree", "add", "--quiet", "--detach", str(made.tree))
    (tmp_path / "precious").mkdir()
    (tmp_path / "precious" / "file").touch()
    (made.tree / "mnt").mkdir()
    mount = ["mount", "--bind", str(tmp_path / "precious"), str(made.tree / "mnt")]
    subprocess.run(mount, check=True)
    try:
        assert made.remove() == f"{made.tree / 'mnt'} is still mounted"
        assert (made.tree / "level").exists()
        assert {each.kind for each in dead(run)} == {"mount", "tree", "folder"}
    finally:
        for point in mounts.below(made.folder):
            mounts.unmount(point)
    assert not made.folder.exists()
    assert (tmp_path / "precious" / "file").exists()
