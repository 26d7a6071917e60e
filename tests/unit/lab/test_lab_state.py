"""The state of labs: up, being started, broken, or absent."""

from __future__ import annotations

import contextlib
import os
import socket
import subprocess
import sys
from typing import TYPE_CHECKING

import psutil
import pytest
from filelock import FileLock

from pytest_vperf.lab import labs, state
from pytest_vperf.lab.command_line import QMP
from pytest_vperf.machine import leftovers
from pytest_vperf.targets.base import CannotStart, Unavailable

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path


@pytest.fixture(autouse=True)
def runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    folder = tmp_path / "runs"
    monkeypatch.setenv("VPERF_RUNS_DIR", str(folder))

    def none(kind: object) -> None:
        raise Unavailable("there is no apt here")

    monkeypatch.setattr("pytest_vperf.lab.image.built", none)
    return folder


@pytest.fixture
def silent_process(runs: Path) -> Iterator[subprocess.Popen[bytes]]:
    """A process marked as the user's KVM host that does not answer."""
    process = subprocess.Popen(
        [sys.executable, "-c", "import time; print(flush=True); time.sleep(600)"],
        env={**os.environ, state.MARK: str(runs / "lab-kvm")},
        stdout=subprocess.PIPE,
    )
    assert process.stdout is not None
    process.stdout.read(1)
    yield process
    process.kill()
    process.wait()
    process.stdout.close()


def states() -> list[str]:
    return [each.state for each in labs.look()]


def test_without_a_state_folder_labs_are_down() -> None:
    assert states() == ["down", "down"]
    assert labs.running("kvm") is None
    assert labs.down("kvm") is False
    assert labs.find_leftovers() == []
    assert labs.labs_left_alone() == []


def test_status_says_why_an_image_cannot_be_built() -> None:
    assert [each.row for each in labs.look()] == [
        ("kvm", "there is no apt here", "down", "", ""),
        ("xen", "there is no apt here", "down", "", ""),
    ]


def test_unknown_kind_is_refused_with_the_kinds_there_are() -> None:
    for call in (labs.up, labs.down, labs.running):
        with pytest.raises(ValueError) as error:
            call("vmware")
        assert str(error.value) == "there is no lab 'vmware'; there are: kvm, xen"


def test_lab_that_is_being_started_is_not_a_leftover(runs: Path) -> None:
    folder = state.user_folder("xen")
    state.begin(folder, "xen")
    with FileLock(state.lock_file(folder)):
        assert states() == ["down", "is being started"]
        assert labs.find_leftovers() == []
    assert states() == ["down", "does not answer (to remove it: vperf clean)"]


def test_lab_whose_process_is_gone_is_a_folder_to_remove(runs: Path) -> None:
    folder = state.user_folder("kvm")
    folder.mkdir()
    gone = psutil.Popen([sys.executable, "-c", ""])
    gone.wait()
    state.write(folder, state.State("kvm", gone.pid, 2222, 0.0, "tcg"))
    assert labs.running("kvm") is None
    assert [str(each) for each in labs.find_leftovers()] == [f"run lab-kvm: folder {folder}"]
    assert leftovers.remove(labs.find_leftovers()) == []
    assert not folder.exists()


@pytest.mark.parametrize("content", ["", '{"kind": "thesis"}', "[1]", "not JSON"])
def test_folder_without_our_file_is_somebody_else_s(runs: Path, content: str) -> None:
    folder = state.user_folder("kvm")
    folder.mkdir()
    if content:
        (folder / "state.json").write_text(content)
    (folder / "thesis.txt").write_text("years of work")
    assert labs.find_leftovers() == []
    assert states() == ["down", "down"]
    assert labs.down("kvm") is False
    with pytest.raises(CannotStart, match=f"{folder} is in the way of lab kvm, and is not ours"):
        state.begin(folder, "kvm")
    assert (folder / "thesis.txt").read_text() == "years of work"


def test_link_to_a_folder_is_not_ours(runs: Path, tmp_path: Path) -> None:
    state.begin(tmp_path / "elsewhere", "kvm")
    state.user_folder("kvm").symlink_to(tmp_path / "elsewhere")
    assert labs.find_leftovers() == []
    assert labs.down("kvm") is False
    assert (tmp_path / "elsewhere").is_dir()


def test_process_that_does_not_answer_is_ended(
    runs: Path, silent_process: subprocess.Popen[bytes]
) -> None:
    folder = state.user_folder("kvm")
    folder.mkdir()
    state.write(folder, state.State("kvm", silent_process.pid, 2222, 0.0, "tcg"))
    assert labs.running("kvm") is None
    assert [each.kind for each in labs.find_leftovers()] == ["process", "folder"]
    assert leftovers.remove(labs.find_leftovers()) == []
    assert silent_process.wait(10) == -9
    assert labs.find_leftovers() == []


def test_process_that_takes_no_connection_is_ended(
    runs: Path, silent_process: subprocess.Popen[bytes], monkeypatch: pytest.MonkeyPatch
) -> None:
    """As with a frozen QEMU whose listen backlog is full, so that further connections block."""
    monkeypatch.setattr(state, "_ANSWER", 0.2)
    folder = state.user_folder("kvm")
    folder.mkdir()
    state.write(folder, state.State("kvm", silent_process.pid, 2222, 0.0, "tcg"))
    monkeypatch.chdir(folder)  # a socket's path may have at most 107 bytes
    with contextlib.ExitStack() as waiting:
        server = waiting.enter_context(socket.socket(socket.AF_UNIX))
        server.bind(QMP)
        server.listen(1)
        with contextlib.suppress(BlockingIOError):
            for _ in range(9):
                client = waiting.enter_context(socket.socket(socket.AF_UNIX))
                client.setblocking(False)
                client.connect(QMP)
        assert labs.running("kvm") is None
        assert labs.down("kvm") is True
    assert silent_process.wait(10) == -9
    assert not folder.exists()


def test_process_whose_folder_is_gone_is_found_by_its_mark(
    runs: Path, silent_process: subprocess.Popen[bytes]
) -> None:
    assert [each.kind for each in labs.find_leftovers()] == ["process"]
    assert states()[0] == "does not answer (to remove it: vperf clean)"
    assert labs.down("kvm") is True
    assert silent_process.wait(10) == -9


def test_process_of_another_user_s_folder_is_left_alone(
    silent_process: subprocess.Popen[bytes], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("VPERF_RUNS_DIR", str(tmp_path / "others"))
    assert labs.find_leftovers() == []


def test_file_of_another_version_is_no_state(runs: Path) -> None:
    folder = state.user_folder("kvm")
    folder.mkdir()
    (folder / "state.json").write_text('{"kind": "kvm", "colour": "blue"}')
    assert state.read(folder) is None
    (folder / "state.json").write_text("not JSON")
    assert state.read(folder) is None


@pytest.mark.parametrize(
    ("seconds", "words"),
    [(-1, "0 s"), (59, "59 s"), (119, "1 min"), (7200, "2 h"), (200_000, "2 d")],
)
def test_age_is_shown_in_one_unit(seconds: float, words: str) -> None:
    assert labs.age(seconds) == words
