"""Another user of this machine, who may write to world-writable folders, gains nothing from what root does there.

Each attack is made by a process of that user, in a folder like /tmp.
"""

from __future__ import annotations

import os
import stat
import subprocess
import sys
from importlib import resources
from pathlib import Path

import pytest
from attacks import BYSTANDER, STRANGER, as_stranger, stranger_at_work

from pytest_vperf.machine import cache, lock, runs

pytestmark = pytest.mark.usefixtures("root")

LONG = 300
#: Where everybody may make files, and where daemons of root make theirs.
SHARED = tuple(map(Path, ("/tmp", "/var/tmp", "/dev/shm", "/run", "/run/lock")))

PROFILE = """
hardware: {name: here, summary: whatever runs this, match: {logical_cpus: ">= 1"}}
claims:
  start.quick: {at_most: 400 s, summary: it starts}
"""


@pytest.fixture
def precious(open_folder):
    """A file of root's, beside the attack; nobody gets to it."""
    path = open_folder / "precious"
    path.write_text("root's own\n")
    path.chmod(0o600)
    yield path
    status = path.lstat()
    assert path.read_text() == "root's own\n"
    assert (stat.S_IMODE(status.st_mode), status.st_uid, status.st_gid) == (0o600, 0, 0)


def vperf(*arguments: object, **environment: object):
    command = "from pytest_vperf.cli import main; raise SystemExit(main())"
    return python("-c", command, *arguments, **environment)


def python(*arguments: object, cwd: object = None, **environment: object):
    return subprocess.run(
        [sys.executable, *map(str, arguments)],
        cwd=str(cwd) if cwd else None,
        env=os.environ | {name: str(value) for name, value in environment.items()},
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=LONG,
    )


@pytest.mark.parametrize("plant", ["symlink", "link"])
def test_the_lock_does_not_expose_a_file_of_root(open_folder, precious, monkeypatch, plant):
    """Root makes the hard link here; where fs.protected_hardlinks is off, as it was for long, the stranger can."""
    path = open_folder / "vperf-measuring.lock"
    if plant == "symlink":
        as_stranger(lambda: path.symlink_to(precious))
    else:
        os.link(precious, path)
    monkeypatch.setenv("VPERF_LOCK", str(path))
    with pytest.raises(OSError, match=f"{path}"), lock.measuring(limit=0):
        pass


def test_a_lock_that_others_may_not_open_names_its_owner(open_folder, monkeypatch):
    path = open_folder / "vperf-measuring.lock"

    def make() -> None:
        path.touch(mode=0o600)

    def measure() -> None:
        with pytest.raises(OSError, match=rf"{path} .*{STRANGER}"), lock.measuring(limit=0):
            pass

    as_stranger(make)
    monkeypatch.setenv("VPERF_LOCK", str(path))
    as_stranger(measure, BYSTANDER)


@pytest.fixture
def holder(open_folder, monkeypatch):
    """What holds the lock of another machine: the shell script, which runs on any."""
    script = resources.files("pytest_vperf.targets.remote").joinpath("hold.sh").read_text()
    path = open_folder / "vperf-measuring.lock"
    monkeypatch.setenv("VPERF_LOCK", str(path))

    def hold():
        pipe = subprocess.PIPE
        argv = ["sh", "-c", script, "sh", "yes", "0", "us"]
        return subprocess.Popen(argv, text=True, stdin=pipe, stdout=pipe, stderr=pipe)

    return path, hold


def test_a_link_swapped_in_for_a_held_remote_lock_is_not_written_to(holder, precious):
    path, hold = holder
    with hold() as process:
        assert [process.stdout.readline().split()[0] for _ in range(2)] == ["folder", "held"]
        assert path.read_text() == "us\n"
        path.unlink()
        as_stranger(lambda: path.symlink_to(precious))
        process.stdin.close()
        process.wait(60)


@pytest.mark.parametrize("plant", ["symlink", "link"])
def test_the_remote_lock_does_not_expose_a_file_of_root(holder, precious, plant):
    path, hold = holder
    if plant == "symlink":
        as_stranger(lambda: path.symlink_to(precious))
    else:
        os.link(precious, path)
    for _ in range(20):  # its input may end while it is ending itself
        with hold() as process:
            error = process.stderr.readline()
            said = process.communicate(timeout=60)[0]
        assert error.startswith(f"{path} is not a regular file")
        assert said.startswith("folder /var/tmp/vperf-")
        assert "held" not in said
        assert not Path(said.split()[1]).exists()


@pytest.mark.parametrize("mode", [0o644, 0o600])
def test_the_remote_lock_does_not_write_to_a_file_with_content(holder, mode):
    path, hold = holder
    path.write_text("precious")
    path.chmod(mode)
    with hold() as process:
        assert [process.stdout.readline().split()[0] for _ in range(2)] == ["folder", "held"]
        process.communicate(timeout=60)
    assert path.read_text() == "precious"


def test_a_remote_lock_that_others_may_not_open_names_its_owner(holder):
    path, hold = holder
    as_stranger(lambda: path.touch(mode=0o600))

    def measure() -> None:
        with hold() as process:
            error = process.stderr.readline()
            process.communicate(timeout=60)
        assert error == (
            f"the measuring lock {path} lets nobody else open it: it is of UNKNOWN (user {STRANGER}, mode 600);"
            " have them, or root, remove it\n"
        )

    as_stranger(measure, BYSTANDER)


def test_nothing_is_run_from_a_cache_of_another_user(open_folder, monkeypatch):
    place = open_folder / "cache"

    def plant() -> None:
        os.umask(0)
        (place / "kind" / "key").mkdir(parents=True)
        (place / "kind" / "key" / "program").write_text("#!/bin/sh\nid > owned\n")

    as_stranger(plant)
    monkeypatch.setenv("VPERF_CACHE_DIR", str(place))
    with pytest.raises(OSError, match=f"{place} belongs to"):
        cache.entry("kind", "key", lambda draft: None)
    assert f"{place} belongs to" in vperf("doctor", VPERF_CACHE_DIR=place).stderr


def test_runs_do_not_use_folders_of_another_user(open_folder, monkeypatch):
    place = open_folder / "runs"
    as_stranger(lambda: place.mkdir(mode=0o777))
    monkeypatch.setenv("VPERF_RUNS_DIR", str(place))
    with pytest.raises(PermissionError, match="belongs to another user"):
        runs.runs_folder()


def test_clean_removes_only_our_own_files(open_folder):
    place = open_folder / "runs"
    place.mkdir(mode=0o700)
    for name in ("lab-notes", "run-notes", "lab-kvm", "run-00000000"):
        (place / name).mkdir()
        (place / name / "thesis.txt").write_text("years of work")
    done = vperf("clean", VPERF_RUNS_DIR=place)
    assert len(list(place.rglob("thesis.txt"))) == 4, done


def test_reports_are_not_written_through_links_in_shared_folders(open_folder, precious):
    folder = open_folder / "project"
    (folder / "thresholds").mkdir(parents=True)
    (folder / "thresholds" / "here.yaml").write_text(PROFILE)
    (folder / "test_it.py").write_text("def test_it(claim): raise ValueError\n")
    out = [open_folder / f"out{n}" for n in range(4)]

    def plant() -> None:
        for path in out:
            path.symlink_to(precious)

    as_stranger(plant)
    python("-m", "pytest", "--hw=here", f"--claims-json={out[0]}", cwd=folder)
    vperf("schema", f"--output={out[1]}")
    for path, style in zip(out[2:], ("--json", "--markdown"), strict=True):
        vperf("claims", style, f"--output={path}", f"--thresholds={folder / 'thresholds'}")


TESTS = """
def test_container(claim, containers):
    claim("start.quick").holds(lambda: containers.start().startup_time)

def test_pod(claim, pods):
    claim("start.quick").holds(lambda: pods.start().startup_time)
"""


@pytest.mark.parametrize(
    ("cache_folder", "targets"),
    [
        ("as-it-is", "container"),
        pytest.param(
            "afresh", "container or pod", marks=[pytest.mark.patient, pytest.mark.timeout(600)]
        ),
    ],
)
@pytest.mark.usefixtures("rootfs")
def test_other_users_cannot_enter_folders_that_a_run_makes(
    open_folder, tmp_path, cache_folder, targets
):
    """He looks at what is new in them, deep down, and puts a file into every folder that lets him."""
    known = {each for place in SHARED for each in place.iterdir()}
    known |= {lock.lock_path(), open_folder}  # what is everybody's on purpose

    def plant() -> None:
        for place in SHARED:
            new = [
                each
                for each in place.iterdir()
                if each not in known and not each.name.startswith("vperf-test-")  # `open_folder`
            ]
            for depth in range(4):
                new = [each for folder in new for each in _enter(folder, depth)]

    def _enter(path: Path, depth: int) -> list[Path]:
        try:
            if path.is_symlink():
                return []
            if path.is_dir():
                (path / "planted-by-a-stranger").touch()
                (open_folder / f"way-in-{depth}").write_text(str(path))
                return list(path.iterdir())
            if path.is_file() and os.access(path, os.W_OK):
                (open_folder / f"file-{depth}").write_text(str(path))
        except OSError:
            pass
        try:
            return list(path.iterdir())
        except OSError:
            return []

    folder = open_folder / "project"
    (folder / "thresholds").mkdir(parents=True)
    (folder / "thresholds" / "here.yaml").write_text(PROFILE)
    (folder / "test_it.py").write_text(TESTS)
    with stranger_at_work(plant):
        # What a newcomer's first run makes: the runs folder where it is by default, and the cache.
        done = python(
            *("-m", "pytest", "-x", "--hw=here", "--claims-sessions=1", "--container-runtime=runc"),
            *("-k", targets),
            cwd=folder,
            VPERF_RUNS_DIR="",
            VPERF_CACHE_DIR=cache.root() if cache_folder == "as-it-is" else tmp_path / "cache",
        )
    assert f"{len(targets.split(' or '))} held" in done.stdout, done.stdout
    ways = {each.name: each.read_text() for each in open_folder.glob("*-[0-9]")}
    assert ways == {}
