"""Block devices that the user named: used, and refused while anything else uses them."""

from __future__ import annotations

import contextlib
import os
import subprocess
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from pytest_vperf.machine import mounts
from pytest_vperf.targets.base import CannotStart
from pytest_vperf.targets.disks import Disks, Here
from pytest_vperf.targets.host import Host
from pytest_vperf.targets.scope import Scope

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from pytest_vperf.machine.runs import Run
    from pytest_vperf.targets.container.containers import Containers

pytestmark = pytest.mark.skipif(os.geteuid() != 0, reason="block devices need root")
SIZE = 8 << 20


@contextlib.contextmanager
def device(file: Path, *options: str, size: int = SIZE) -> Iterator[str]:
    """A loop device of the test's own stands for a disk of the machine."""
    with file.open("wb") as stream:
        stream.truncate(size)
    made = call("losetup", "--find", "--show", *options, str(file)).strip()
    try:
        yield made
    finally:
        mounts.detach_loop(made)


def call(*words: str, input: str = "") -> str:
    return subprocess.run(words, input=input, capture_output=True, text=True, check=True).stdout


@pytest.fixture
def disk(tmp_path: Path) -> Iterator[str]:
    with device(tmp_path / "disk") as made:
        yield made


@pytest.fixture
def use(disk: str, session_run: Run) -> Iterator[Callable[..., object]]:
    """Uses the disk, as the user who named it."""
    scope = Scope()
    yield Disks(Here(session_run), scope, [disk]).use
    scope.close_since()


def test_its_first_bytes_are_written_and_stay(tmp_path: Path, disk: str, session_run: Run) -> None:
    scope = Scope()
    made = Disks(Here(session_run), scope, [disk]).use(size="4 MiB")
    with Host(session_run) as host:
        assert made.where(host) == disk
    assert (made.size, made.span, made.details["below"]) == (4 << 20, 4 << 20, "device")
    scope.close_since()
    content = (tmp_path / "disk").read_bytes()
    assert content[: 4 << 20].count(0) < (4 << 20) / 100
    assert not any(content[4 << 20 :])
    assert mounts.loop_backing(disk)


def test_it_has_a_file_system_where_one_is_asked_for(disk: str, session_run: Run) -> None:
    scope = Scope()
    made = Disks(Here(session_run), scope, [disk]).use(size="4 MiB", format="ext4")
    with Host(session_run) as host:
        folder = Path(made.where(host))
        room = os.statvfs(folder)
        assert room.f_frsize * room.f_blocks < 4 << 20
    scope.close_since()
    assert not folder.is_mount()
    # It can be used again.
    Disks(Here(session_run), scope, [disk]).use(size="4 MiB")
    scope.close_since()


def test_a_container_measures_on_it(
    disk: str, session_run: Run, containers: Callable[[str], Containers]
) -> None:
    scope = Scope()
    made = Disks(Here(session_run), scope, [disk]).use(size="4 MiB")
    with containers("runc").start(disks=[made]) as container:
        container.run(["dd", "if=/dev/zero", f"of={made.where(container)}", "bs=4096", "count=1"])
    scope.close_since()
    assert Path(disk).read_bytes()[:4096] == bytes(4096)


def test_one_that_is_mounted_is_refused(
    use: Callable[..., object], disk: str, tmp_path: Path
) -> None:
    call("mkfs.ext4", "-q", disk)
    point = tmp_path / "point"
    point.mkdir()
    call("mount", disk, str(point))
    (point / "kept").write_text("mine")
    try:
        with pytest.raises(CannotStart, match=rf"^{disk} is in use: it is mounted at {point}$"):
            use(size="4 MiB")
        assert (point / "kept").read_text() == "mine"
    finally:
        call("umount", str(point))


def test_one_that_is_mounted_elsewhere_is_refused(
    use: Callable[..., object], disk: str, tmp_path: Path
) -> None:
    """In a namespace that this one does not see."""
    call("mkfs.ext4", "-q", disk)
    script = 'mount "$1" "$2" && echo ready && read -r _'
    words = ["unshare", "--mount", "sh", "-c", script, "sh", disk, str(tmp_path)]
    with subprocess.Popen(
        words, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as holder:
        assert holder.stdout is not None
        assert holder.stdout.readline() == "ready\n"
        with pytest.raises(
            CannotStart,
            match=rf"^{disk} is in use: it is mounted, swap space, or a part of another device$",
        ):
            use(size="4 MiB")
        holder.communicate("\n")


def test_swap_space_is_refused(use: Callable[..., object], disk: str) -> None:
    call("mkswap", disk)
    try:
        call("swapon", disk)
    except subprocess.CalledProcessError as error:
        pytest.skip(f"swap space cannot be had here: {error.stderr.strip()}")
    try:
        with pytest.raises(CannotStart, match=rf"^{disk} is in use: "):
            use(size="4 MiB")
    finally:
        call("swapoff", disk)


def test_one_with_partitions_is_refused(tmp_path: Path, session_run: Run) -> None:
    with device(tmp_path / "divided", "--partscan") as disk:
        call("addpart", disk, "1", "2048", "4096")
        part = f"{Path(disk).name}p1"
        with pytest.raises(
            CannotStart,
            match=rf"^{disk} has partitions \({part}\): name one of them, or wipe the disk$",
        ):
            Disks(Here(session_run), Scope(), [disk]).use(size="4 MiB")
        call("delpart", disk, "1")


def test_one_that_is_read_only_or_too_small_is_refused(tmp_path: Path, session_run: Run) -> None:
    with (
        device(tmp_path / "fixed", "--read-only") as disk,
        pytest.raises(CannotStart, match=rf"^{disk} is read-only$"),
    ):
        Disks(Here(session_run), Scope(), [disk]).use(size="4 MiB")
    with (
        device(tmp_path / "small") as disk,
        pytest.raises(CannotStart, match=rf"^{disk} has 8388608 bytes, less than 268435456$"),
    ):
        Disks(Here(session_run), Scope(), [disk]).use()
    assert not any((tmp_path / "small").read_bytes())
