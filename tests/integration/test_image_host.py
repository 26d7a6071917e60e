"""The machine of a libvirt daemon, reached by SSH: an image's programs and disks of the run on it, and their end.

The machine is this one, by a real ``sshd`` on the loopback.
"""

from __future__ import annotations

import os
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import psutil
import pytest
import sshd_here
from attacks import STRANGER, as_stranger

from pytest_vperf.machine import leftovers, mounts
from pytest_vperf.machine.preflight import Readiness
from pytest_vperf.targets.base import Completed, Unavailable
from pytest_vperf.targets.disks import Disks, There
from pytest_vperf.targets.image import rootfs
from pytest_vperf.targets.remote.ssh import ImageHost
from pytest_vperf.targets.scope import Scope

#: Seconds for what goes with a run that was killed; a shared machine needs two.
LONG = 60.0

# Runs in its own process, to be killed: prints the objects once all exist.
RUN = """
import sys, time
from pathlib import Path
from pytest_vperf.machine.runs import Run
from pytest_vperf.targets.image import rootfs as image
from pytest_vperf.targets.remote.ssh import ImageHost
from pytest_vperf.targets.scope import Scope
from pytest_vperf.targets.disks import Disks, There

host = ImageHost(
    sys.argv[1], Run.begin(), rootfs=image.default_rootfs, config=Path(sys.argv[2])
)
host.program("busybox")
disk = Disks(There(host, f"{host.folder}/disks"), Scope()).make("2 MiB", format="ext4")
disk.mounted()
print(host.folder, flush=True)
time.sleep(600)
"""


@pytest.fixture(scope="module")
def sshd(short_folder, require):
    require("host", sshd_here.check())
    require("host", Readiness("mounts", os.geteuid() == 0, "only root can mount"))
    with sshd_here.serve(short_folder / "images-ssh") as server:
        yield server


@pytest.fixture
def host(sshd, session_run):
    with ImageHost(
        f"ssh://loopback:{sshd.port}",
        session_run,
        rootfs=rootfs.default_rootfs,
        config=sshd.config,
    ) as host:
        yield host


def ours(folder: str) -> list[str]:
    """A run's objects on the machine: its folder, mounts below it, loop devices of files in it."""
    found = [folder] if Path(folder).exists() else []
    found += [str(point) for point in mounts.below(Path(folder))]
    loops = subprocess.run(
        ["losetup", "--list", "--noheadings", "--output", "NAME,BACK-FILE"],
        capture_output=True,
        text=True,
        check=True,
    )
    return found + [line for line in loops.stdout.splitlines() if f"{folder}/" in line]


def mounted_below(folder: str) -> list[tuple[str, set[str]]]:
    """Mount points, each with its options."""
    found = psutil.disk_partitions(all=True)
    return [
        (each.mountpoint, set(each.opts.split(",")))
        for each in found
        if each.mountpoint.startswith(folder)
    ]


def test_an_image_gives_the_users_of_the_machine_no_privilege(host):
    program = host.program("busybox")
    assert host.run([program.argv[0], "echo", "it runs"]).text == "it runs\n"
    brought = [each for each in Path(host.folder).rglob("*") if each.is_file()]
    assert brought
    assert {each.stat().st_mode & 0o7777 for each in brought} == {0o755}

    def look() -> None:
        with pytest.raises(PermissionError):
            next(Path(host.folder).iterdir())
        with pytest.raises(PermissionError):
            os.open(program.argv[0], os.O_RDONLY)
        assert os.geteuid() == STRANGER

    as_stranger(look)


def test_each_file_is_brought_once(host, monkeypatch):
    sent = []
    run = host.run

    def watched(argv: list[str], **how: Any) -> Completed:
        sent.append(how.get("input", b""))
        done: Completed = run(argv, **how)
        return done

    monkeypatch.setattr(host, "run", watched)
    first = host.program("busybox")
    assert host.program("busybox") == first
    assert len([each for each in sent if each]) == 1


def test_where_nothing_may_be_executed_it_says_so(sshd, session_run, short_folder):
    noexec = short_folder / "noexec"
    noexec.mkdir()
    subprocess.run(
        ["mount", "-t", "tmpfs", "-o", "noexec,size=8m", "none", str(noexec)], check=True
    )
    try:
        with (
            ImageHost(
                f"ssh://loopback:{sshd.port}",
                session_run,
                rootfs=rootfs.default_rootfs,
                config=sshd.config,
                folder=str(noexec),
            ) as host,
            pytest.raises(
                Unavailable,
                match=r"^host: busybox of the image busybox \S+ cannot be brought there: nothing in \S+ may be"
                r" executed: its file system is mounted noexec \(to mend it: --vperf-host-tools",
            ),
        ):
            host.program("busybox")
    finally:
        subprocess.run(["umount", str(noexec)], check=True)


def test_a_disk_gives_the_users_of_the_machine_no_privilege(host):
    scope = Scope()
    Disks(There(host, f"{host.folder}/disks"), scope).make("2 MiB", format="ext4").mounted()
    ((_, options),) = mounted_below(host.folder)
    scope.close_since()
    assert {"nosuid", "nodev"} <= options


def test_an_end_leaves_nothing(host):
    scope = Scope()
    Disks(There(host, f"{host.folder}/disks"), scope).make("2 MiB", format="ext4").mounted()
    host.program("busybox")
    folder = host.folder
    assert len(ours(folder)) == 3, "a folder, a mount, and its loop device"
    scope.close_since()
    host.close()
    assert ours(folder) == []


def test_a_kill_leaves_nothing(sshd, runs_dir):
    words = [f"ssh://loopback:{sshd.port}", str(sshd.config)]
    run = subprocess.Popen([sys.executable, "-c", RUN, *words], stdout=subprocess.PIPE, text=True)
    assert run.stdout is not None
    folder = run.stdout.readline().strip()
    children = psutil.Process(run.pid).children(recursive=True)
    assert len(ours(folder)) == 3
    run.kill()
    run.wait()
    deadline = time.monotonic() + LONG
    while ours(folder) and time.monotonic() < deadline:
        time.sleep(0.1)
    assert ours(folder) == []
    leftovers.sweep()  # the connection, which others of the run might have used
    assert [each for each in children if each.is_running() and each.status() != "zombie"] == []
