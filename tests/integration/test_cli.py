"""The command `vperf` as a user runs it: its own process, real checks, real leftovers."""

from __future__ import annotations

import contextlib
import json
import os
import pty
import signal
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path

import psutil
import pytest

from pytest_vperf.commands import doctor

# Begins a run, starts a process for it, prints the IDs of both, and waits to be killed.
A_RUN = """
import subprocess, sys, time
from pytest_vperf.machine.runs import Run
run = Run.begin()
sleep = subprocess.Popen(["sleep", "300"], env=run.environment, start_new_session=True)
print(run.id, sleep.pid, flush=True)
time.sleep(300)
"""

Vperf = Callable[..., "subprocess.CompletedProcess[str]"]


@pytest.fixture
def runs_folder() -> Iterator[Path]:
    """A folder for this test's runs; its path is short, because sockets are made in it."""
    with tempfile.TemporaryDirectory(prefix="vperf-") as folder:
        yield Path(folder)


@pytest.fixture
def vperf(runs_folder: Path) -> Vperf:
    def vperf(*arguments: str, **variables: str) -> subprocess.CompletedProcess[str]:
        environment = {**os.environ, "VPERF_RUNS_DIR": str(runs_folder), **variables}
        command = [sys.executable, "-m", "pytest_vperf", *arguments]
        return subprocess.run(
            command, env=environment, capture_output=True, text=True, timeout=300, check=False
        )

    return vperf


@pytest.fixture
def begun(runs_folder: Path) -> Iterator[tuple[subprocess.Popen[str], str, psutil.Process]]:
    """A live run: its owner, its ID, and a process that it started."""
    owner = subprocess.Popen(
        [sys.executable, "-c", A_RUN],
        env={**os.environ, "VPERF_RUNS_DIR": str(runs_folder)},
        stdout=subprocess.PIPE,
        text=True,
    )
    assert owner.stdout is not None
    with owner:
        identity, pid = owner.stdout.readline().split()
        sleep = psutil.Process(int(pid))
        try:
            yield owner, identity, sleep
        finally:
            owner.kill()
            with contextlib.suppress(psutil.NoSuchProcess):
                sleep.kill()


def _killed(owner: subprocess.Popen[str]) -> None:
    owner.send_signal(signal.SIGKILL)
    owner.wait(timeout=30)


def _lives(process: psutil.Process) -> bool:
    return process.is_running() and process.status() != psutil.STATUS_ZOMBIE


def test_clean_finds_nothing_where_nothing_is_left(vperf: Vperf) -> None:
    done = vperf("clean")
    assert (done.returncode, done.stdout, done.stderr) == (0, "nothing left over\n", "")


def test_clean_leaves_a_run_that_lives_alone(
    vperf: Vperf, begun: tuple[subprocess.Popen[str], str, psutil.Process], runs_folder: Path
) -> None:
    owner, identity, sleep = begun
    done = vperf("clean")
    assert (done.returncode, done.stdout) == (0, "nothing left over\n")
    assert _lives(sleep)
    assert owner.poll() is None
    assert runs_folder.joinpath(f"run-{identity}").is_dir()


def test_clean_shows_and_removes_what_a_killed_run_left(
    vperf: Vperf, begun: tuple[subprocess.Popen[str], str, psutil.Process], runs_folder: Path
) -> None:
    owner, identity, sleep = begun
    folder = runs_folder / f"run-{identity}"
    _killed(owner)

    shown = vperf("clean", "--dry-run")
    rows = [line.split(maxsplit=2) for line in shown.stdout.splitlines()]
    assert shown.returncode == 0
    assert rows[0] == ["run", "kind", "what"]
    assert [identity, "process", f"{sleep.pid}: sleep 300"] in rows
    assert [identity, "folder", str(folder)] in rows
    assert shown.stdout.endswith("2 things left over; nothing was removed (--dry-run)\n")
    assert _lives(sleep)
    assert folder.is_dir()

    done = vperf("clean")
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.endswith("2 things removed\n")
    assert not _lives(sleep)
    assert not folder.exists()
    assert vperf("clean").stdout == "nothing left over\n"


def test_doctor_reports_the_check_of_containers(vperf: Vperf) -> None:
    done = vperf("doctor", "container", "--json")
    own = {answer.name: answer for answer in doctor.check(("runc",))}
    told = {answer["name"]: answer for answer in json.loads(done.stdout)["checks"]}
    assert told.keys() == {"container", "container runc"}
    for name, answer in told.items():
        assert (answer["usable"], answer["why"]) == (own[name].usable, own[name].why)
        assert answer["remedy"] == own[name].remedy
    assert done.returncode == (0 if all(answer.usable for answer in own.values()) else 1)


def test_doctor_names_an_engine_that_does_not_answer(vperf: Vperf, runs_folder: Path) -> None:
    address = f"unix://{runs_folder}/none.sock"
    done = vperf("doctor", "container", DOCKER_HOST=address)
    assert done.returncode == 1
    assert "not usable" in done.stdout
    assert address in "".join(done.stdout.split())


def test_doctor_reports_a_missing_runtime(vperf: Vperf) -> None:
    done = vperf("doctor", "no-such", "--container-runtime=no-such", "--json")
    (answer,) = json.loads(done.stdout)["checks"]
    assert done.returncode == 1
    assert (answer["name"], answer["usable"]) == ("container no-such", False)
    assert answer["why"]


def test_doctor_boots_pods(vperf: Vperf) -> None:
    done = vperf("doctor", "pod", "tcg", "qboot", "--json")
    answers = json.loads(done.stdout)["checks"]
    assert [answer["name"] for answer in answers] == ["pod", "accelerator tcg", "firmware qboot"]
    lacking = [f"{answer['name']}: {answer['why']}" for answer in answers if not answer["usable"]]
    assert done.returncode == (1 if lacking else 0)
    if lacking:
        required = "pod" in os.environ.get("VPERF_TEST_REQUIRE", "").split(",")
        (pytest.fail if required else pytest.skip)("; ".join(lacking))
    started = next(answer["why"] for answer in answers if answer["name"] == "accelerator tcg")
    assert started.startswith("a pod started in ")


def test_clean_reports_an_engine_that_it_could_not_search(vperf: Vperf, runs_folder: Path) -> None:
    address = f"unix://{runs_folder}/none.sock"
    done = vperf("clean", DOCKER_HOST=address)
    assert (done.returncode, done.stdout) == (1, "nothing left over\n")
    assert done.stderr.startswith(f"vperf clean: the Docker engine at {address}")
    assert done.stderr.endswith(", so containers were not looked for\n")


def test_doctor_refuses_an_invalid_kernel_file(vperf: Vperf, runs_folder: Path) -> None:
    kernel = runs_folder / "kernel"
    kernel.write_bytes(b"no kernel" * 1000)
    done = vperf("doctor", "pod", f"--guest-kernel={kernel}", "--json")
    (answer,) = json.loads(done.stdout)["checks"]
    assert done.returncode == 1
    assert answer["name"] == "pod"
    assert not answer["usable"]
    assert str(kernel) in answer["why"]


def test_the_report_of_the_doctor_is_plain_in_a_pipe(vperf: Vperf) -> None:
    done = vperf("doctor", "host", "fio")
    assert "\x1b" not in done.stdout
    assert done.stderr == ""
    lines = [line.split() for line in done.stdout.splitlines()]
    assert lines[0] == ["name", "why", "to", "mend", "it"]
    assert lines[2][:2] == ["host", "usable"]


def test_the_doctor_shows_its_progress_on_a_terminal() -> None:
    leader, terminal = pty.openpty()
    command = [sys.executable, "-m", "pytest_vperf", "doctor", "container"]
    # It waits for other tests that measure meanwhile.
    subprocess.run(command, stdout=subprocess.DEVNULL, stderr=terminal, timeout=600, check=False)
    os.close(terminal)
    shown = os.read(leader, 4096).decode()
    os.close(leader)
    assert shown == "probing containers …\r\x1b[K"


def test_a_reader_that_goes_away_is_no_error(vperf: Vperf) -> None:
    command = f"{sys.executable} -m pytest_vperf schema | head -n 1"
    done = subprocess.run(
        ["bash", "-o", "pipefail", "-c", command],
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert (done.returncode, done.stdout, done.stderr) == (0, "{\n", "")
