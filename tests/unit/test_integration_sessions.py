"""How the integration tests divide their work, and what a session of them does about one that was killed."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING

from by_folder import scope_of
from session_folder import session_folder

from pytest_vperf.lab import state
from pytest_vperf.machine.runs import Run

if TYPE_CHECKING:
    import pytest

INTEGRATION = Path(__file__).parents[1] / "integration"
MEMBERS = """
import pytest

@pytest.mark.parametrize("number", range(4))
def test_it(number): ...
"""


def test_a_file_and_a_folder_are_each_run_by_one_process(pytester: pytest.Pytester) -> None:
    folder = pytester.mkdir("integration")
    (folder / "conftest.py").write_text((INTEGRATION / "conftest.py").read_text())
    files = ("test_one.py", "test_two.py", "labs/test_a.py", "labs/test_b.py", "guests/test_c.py")
    for file in files:
        (folder / file).parent.mkdir(exist_ok=True)
        (folder / file).write_text(MEMBERS)
    pytester.makeini(f"[pytest]\npythonpath = {INTEGRATION / 'machines'}")
    result = pytester.runpytest_subprocess(
        "-n", "2", "--dist", "loadfile", "-v", "--import-mode=importlib", "integration"
    )
    assert result.ret == 0, result.stdout.str()
    ran = [line.split() for line in result.outlines if "PASSED" in line]
    assert len(ran) == 4 * len(files)
    processes = {(scope_of(words[-1]), words[0]) for words in ran}
    assert sorted(scope for scope, _ in processes) == [
        *("guests", "labs", "test_one.py", "test_two.py")
    ]


def test_leftovers_of_a_killed_session_are_removed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    home = tmp_path
    ended = subprocess.Popen([sys.executable, "-c", ""])
    ended.wait()
    for number in (ended.pid, os.getpid()):
        monkeypatch.setenv("VPERF_RUNS_DIR", str(home / f"vpt-{number}" / "s"))
        Run.begin().close(keep=True)
    for kept in (f"vpt-{os.getppid()}", "vpt-notes", "vpt-7x"):
        (home / kept).mkdir()
    with session_folder(home) as folder:
        assert folder == home / f"vpt-{os.getpid()}"
        assert list(folder.iterdir()) == []
        assert not (home / f"vpt-{ended.pid}").exists()
        (folder / "file").touch()
    left = {path.name for path in home.iterdir() if path.is_dir()}
    assert left == {f"vpt-{os.getppid()}", "vpt-notes", "vpt-7x"}


def test_a_lab_that_a_killed_session_had_is_ended(tmp_path: Path) -> None:
    """Its tests start labs as a user does, in folders without a run."""
    ended = subprocess.Popen([sys.executable, "-c", ""])
    ended.wait()
    lab = tmp_path / f"vpt-{ended.pid}" / "a" / "lab-kvm"
    lab.mkdir(parents=True)
    with subprocess.Popen(["sleep", "600"], env={state.MARK: str(lab)}) as process:
        try:
            with session_folder(tmp_path):
                assert process.wait(10) == -9
        finally:
            process.kill()
