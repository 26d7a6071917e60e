"""`vperf doctor --tune` on the settings of the machine that runs the tests; each is restored, whatever happens."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING

import psutil
import pytest

from pytest_vperf.machine.preflight import Readiness, find_program
from pytest_vperf.machine.processes import wait_gone

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

THP = Path("/sys/kernel/mm/transparent_hugepage/enabled")
ASLR = Path("/proc/sys/kernel/randomize_va_space")
NOBODY = 65534


@pytest.fixture
def noisy(require: Callable[[str, Readiness], None]) -> Iterator[dict[Path, bytes]]:
    """A machine with noisy huge pages; the files that the tests change, and their contents."""
    writable = all(os.access(path, os.W_OK) for path in (THP, ASLR))
    require("tuning", Readiness("tuning", writable, f"{THP} or {ASLR} cannot be written"))
    before = {path: path.read_bytes() for path in (THP, ASLR)}
    THP.write_text("always\n")
    ASLR.write_text("2\n")
    try:
        yield {path: path.read_bytes() for path in (THP, ASLR)}
    finally:
        choice = before[THP].partition(b"[")[2].partition(b"]")[0]
        THP.write_bytes(choice + b"\n")
        ASLR.write_bytes(before[ASLR])
        assert {path: path.read_bytes() for path in (THP, ASLR)} == before


@pytest.fixture
def runs(noisy: dict[Path, bytes]) -> Iterator[Path]:
    """A folder for runs that no other test uses."""
    folder = Path(tempfile.mkdtemp(prefix="vperf-"))
    try:
        yield folder
    finally:
        shutil.rmtree(folder)


def command(*arguments: str) -> list[str]:
    return [sys.executable, "-m", "pytest_vperf", *arguments]


def environment(runs: Path) -> dict[str, str]:
    return {**os.environ, "VPERF_RUNS_DIR": str(runs), "DOCKER_HOST": f"unix://{runs}/none.sock"}


def vperf(runs: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        command(*arguments),
        env=environment(runs),
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )


def now() -> dict[Path, bytes]:
    return {path: path.read_bytes() for path in (THP, ASLR)}


@pytest.fixture
def tuning(runs: Path) -> Iterator[tuple[subprocess.Popen[str], psutil.Process]]:
    """A `vperf` that has changed the settings and waits, and its guardian."""
    process = subprocess.Popen(
        command("doctor", "--tune", "--apply", "--also=aslr"),
        env=environment(runs),
        stdin=subprocess.PIPE,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        text=True,
    )
    assert process.stderr is not None
    with process:
        try:
            lines = [process.stderr.readline() for _ in range(2)]
            assert lines[1] == "vperf: waiting; Ctrl-C restores them\n", lines
            (guardian,) = psutil.Process(process.pid).children()
            yield process, guardian
        finally:
            process.kill()
    assert wait_gone([guardian], 30) == []


def test_settings_hold_while_a_command_runs(runs: Path, noisy: dict[Path, bytes]) -> None:
    script = f"cat {THP} {ASLR}; exit 3"
    done = vperf(runs, "doctor", "--tune", "--apply", "--also=aslr", "--", "sh", "-c", script)
    assert (done.returncode, done.stdout) == (3, "always [madvise] never\n0\n")
    assert now() == noisy
    changed, restored = done.stderr.splitlines()
    assert changed.startswith("vperf: changed ")
    assert {"transparent huge pages", "address space layout randomisation"} <= set(
        changed.removeprefix("vperf: changed ").split(", ")
    )
    assert restored == changed.replace("changed", "restored")


def test_kill_9_restores(
    tuning: tuple[subprocess.Popen[str], psutil.Process], noisy: dict[Path, bytes], runs: Path
) -> None:
    process, guardian = tuning
    assert now() == {THP: b"always [madvise] never\n", ASLR: b"0\n"}
    process.kill()
    assert wait_gone([guardian], 30) == []
    assert now() == noisy
    assert not (runs / "tuning.json").exists()
    assert process.stderr is not None
    assert process.stderr.read() == (
        "vperf doctor --tune: it was killed; the settings are as they were\n"
    )


@pytest.mark.parametrize("arguments", [["clean"], ["doctor", "--tune"]])
def test_the_next_command_restores_forgotten_settings(
    arguments: list[str],
    tuning: tuple[subprocess.Popen[str], psutil.Process],
    noisy: dict[Path, bytes],
    runs: Path,
) -> None:
    process, guardian = tuning
    guardian.kill()
    process.kill()
    process.wait()
    assert wait_gone([guardian], 30) == []
    assert now() == {THP: b"always [madvise] never\n", ASLR: b"0\n"}

    shown = vperf(runs, "clean", "--dry-run")
    assert f"settings of this machine, in {runs}/tuning.json" in shown.stdout
    assert now() != noisy

    done = vperf(runs, *arguments)
    assert now() == noisy
    assert not (runs / "tuning.json").exists()
    if arguments == ["clean"]:
        assert done.stdout.endswith("1 thing removed\n")
    else:
        said = f"vperf: the settings that process {process.pid} had changed are as they were\n"
        assert (done.returncode, done.stderr) == (0, said)


def test_two_at_once_are_refused(
    tuning: tuple[subprocess.Popen[str], psutil.Process], runs: Path
) -> None:
    process, _ = tuning
    done = vperf(runs, "doctor", "--tune", "--apply", "--", "true")
    assert (done.returncode, done.stdout) == (1, "")
    assert done.stderr.startswith(
        f"vperf doctor --tune: process {process.pid} has changed the settings of this machine, "
    )


# The user is changed when everything is imported: another user may not be able to read this Python.
AS_NOBODY = """
import os, sys
from pytest_vperf.commands import tune
os.setgroups([])
os.setgid(65534)
os.setuid(65534)
sys.exit(tune.run(apply=True, command=["true"]))
"""


def test_without_root_the_file_is_named(runs: Path, noisy: dict[Path, bytes]) -> None:
    os.chown(runs, NOBODY, NOBODY)
    done = subprocess.run(
        [sys.executable, "-c", AS_NOBODY],
        env=environment(runs),
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert (done.returncode, done.stdout) == (1, "")
    assert done.stderr.endswith(" cannot be written: this needs root\n")
    assert done.stderr.startswith("vperf doctor --tune: /")
    assert now() == noisy


def test_where_sysfs_is_read_only_the_file_is_named(runs: Path, noisy: dict[Path, bytes]) -> None:
    if find_program("unshare") is None:
        pytest.skip("unshare is not installed")
    script = 'mount --bind /sys/kernel/mm /sys/kernel/mm && mount -o remount,bind,ro /sys/kernel/mm && "$@"'
    done = subprocess.run(
        [
            "unshare",
            "-m",
            "sh",
            "-ec",
            script,
            "sh",
            *command("doctor", "--tune", "--apply", "--", "true"),
        ],
        env=environment(runs),
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    if "unshare:" in done.stderr or "mount:" in done.stderr:
        pytest.skip(f"mounts cannot be made here: {done.stderr}")
    assert done.returncode == 1
    assert done.stderr == f"vperf doctor --tune: {THP} cannot be written: it is read-only here\n"
    assert now() == noisy


def test_the_doctor_names_noisy_settings_of_this_machine(
    runs: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", "2000")  # what else is noisy must not wrap the words looked for
    done = vperf(runs, "doctor", "noise")
    assert done.returncode == 0
    row = done.stdout.splitlines()[2].split()
    assert row[:2] == ["noise", "noisy"]
    assert "transparent huge pages always" in " ".join(done.stdout.split())
