"""``vperf gate``: base and the current tree are built, and compared in one run."""

from __future__ import annotations

import subprocess
import sys
from typing import TYPE_CHECKING

import pytest
from repositories import TOOL_TEST, git, repository

if TYPE_CHECKING:
    from pathlib import Path


@pytest.fixture
def tool(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A repository of a tool."""
    monkeypatch.setenv("VPERF_LOCK", str(tmp_path / "lock"))
    folder = tmp_path / "tool"
    repository(folder, [100])
    (folder / "kept").write_text("in the repository")
    git(folder, "add", "-A")
    git(folder, "commit", "--quiet", "--message=kept")
    (tmp_path / "test_it.py").write_text(TOOL_TEST)
    return folder


def gate(tool: Path, *words: str, build: str = "cp level out") -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "pytest_vperf", "gate", "--base=HEAD", f"--build={build}"]
    command += ["--artefact=env.TOOL=out", "--repository=tool", *words]
    command += ["--", "test_it.py", "-p", "no:cacheprovider"]
    return subprocess.run(command, cwd=tool.parent, capture_output=True, text=True, check=False)


@pytest.mark.parametrize(("level", "status"), [("120", 1), ("101", 0)])
def test_what_is_checked_out_is_compared_with_base(tool: Path, level: str, status: int) -> None:
    (tool / "level").write_text(level)
    done = gate(tool)
    assert done.returncode == status, done.stderr
    assert ("gate: 1 slower" if status else "gate: 1 not slower (within 5 %)") in done.stdout
    assert f"vperf gate: building head in {tool}\n" in done.stderr
    assert (tool / "level").read_text() == level
    assert git(tool, "worktree", "list").count("\n") == 0


@pytest.mark.parametrize(
    ("words", "build", "message"),
    [
        (["--base=nowhere"], "cp level out", "--base: {} has no commit 'nowhere'"),
        ([], "false", "base cannot be built: false: exit status 1"),
        ([], "test -f new && cp level out", "base cannot be built: test -f new && cp level out: exit status 1"),
        (["--repository=."], "cp level out", "fatal: not a git repository"),
    ],
)  # fmt: skip
def test_what_cannot_be_built_is_said(
    tool: Path, words: list[str], build: str, message: str
) -> None:
    done = gate(tool, *words, build=build)
    assert done.returncode == 4
    assert message.format(tool) in done.stderr


def test_equal_builds_are_refused(tool: Path) -> None:
    done = gate(tool, build="echo 100 > out")
    assert done.returncode == 4
    assert "base and head build the same bytes of out: nothing changed, or " in done.stderr


def test_a_file_of_the_repository_is_never_removed(tool: Path) -> None:
    (tool / "kept").write_text("changed by me")
    done = gate(tool, "--artefact=env.TOOL=kept", build="true")
    assert (tool / "kept").read_text() == "changed by me", done.stderr


def test_nothing_of_the_users_tree_is_removed(tool: Path) -> None:
    """A folder that a build fills may have more in it."""
    (tool / "build").mkdir()
    (tool / "build" / "notes").write_text("mine")
    gate(tool, "--artefact=env.TOOL=build", build="mkdir -p build && cp level build")
    assert (tool / "build" / "notes").read_text() == "mine"
