"""Disks on another machine: made, mounted and removed by commands there."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from pytest_vperf.targets.base import CannotStart, Completed, TargetError, Unavailable
from pytest_vperf.targets.disks import Disk, Disks, There
from pytest_vperf.targets.scope import Scope


class Far:
    """A remote machine with given answers."""

    name = "host (lab kvm)"

    def __init__(self) -> None:
        self.said = "/dev/loop3 7:3 1\next2/ext3\n"
        self.commands: list[tuple[str, ...]] = []
        self.fails = ""

    def run(self, argv: list[str], **_: object) -> Completed:
        self.commands.append(tuple(argv[4:] if argv[0] == "sh" else argv))
        if self.fails and self.fails in argv[0]:
            raise TargetError(f"{self.fails} fails")
        return Completed(tuple(argv), 0, self.said.encode(), b"", 0.0)


@pytest.fixture
def far() -> Far:
    return Far()


def make(far: Far, size: str = "1.5 MiB", scope: Scope | None = None, **options: Any) -> Disk:
    there = There(far, "/run-1/disks")  # type: ignore[arg-type]
    return Disks(there, scope or Scope()).make(size, **options)


def test_a_remote_disk_is_made_and_removed_with_its_scope(far: Far) -> None:
    scope = Scope()
    disk = make(far, scope=scope, format="ext4")
    folder = f"/run-1/disks/{disk.name}"
    assert far.commands[0] == (folder, "2")
    assert far.commands[1][0] == "mkfs.ext4"
    assert far.commands[1][-1] == "/dev/loop3"
    assert disk.details == {
        "device": "/dev/loop3",
        "size": str(2 << 20),
        "file": "written",
        "format": "ext4",
        "direct_io": "yes",
        "below": "ext2/ext3",
    }
    assert (disk.number, disk.remote) == ("7:3", True)
    scope.close_since()
    assert far.commands[2:] == [(folder, "/dev/loop3")]


def test_a_remote_disk_is_mounted_once_and_only_on_its_host(far: Far) -> None:
    disk = make(far, format="ext4")
    folder = f"/run-1/disks/{disk.name}"
    far.commands.clear()
    assert disk.where(far) == disk.where(far) == f"{folder}/own"  # type: ignore[arg-type]
    assert str(disk.mounted()) == str(disk.mounted()) == f"{folder}/mounted"
    assert far.commands == [
        (f"{folder}/own", "ext4", "/dev/loop3", "nosymfollow"),
        (f"{folder}/mounted", "ext4", "/dev/loop3", ""),
    ]
    here: Any = SimpleNamespace(name="host")
    with pytest.raises(TargetError) as caught:
        disk.where(here)
    assert str(caught.value) == f"{disk.name} is on host (lab kvm), and not on host"
    with pytest.raises(CannotStart) as refused:
        disk.lend("domu pv")
    assert str(refused.value) == (
        f"{disk.name} is mounted on its host: make another disk for domu pv"
    )


def test_a_remote_disk_is_used_by_one_machine_at_a_time(far: Far) -> None:
    disk = make(far, format="ext4")
    disk.lend("domu pv")
    with pytest.raises(CannotStart, match=f"^{disk.name} is in domu pv already$"):
        disk.lend("guest kvm")
    with pytest.raises(CannotStart) as caught:
        disk.mounted()
    assert str(caught.value) == f"{disk.name} is in domu pv: it cannot be mounted there too"
    disk.give_back()
    assert str(disk.mounted()) == f"/run-1/disks/{disk.name}/mounted"


def test_a_disk_that_cannot_be_formatted_is_removed(far: Far) -> None:
    far.fails = "mkfs"
    with pytest.raises(TargetError, match=r"^mkfs fails$"):
        make(far, format="ext4")
    assert far.commands[-1][1] == "/dev/loop3"


def test_an_answer_that_is_not_understood_is_quoted(far: Far) -> None:
    far.said = "no\n"
    with pytest.raises(CannotStart) as caught:
        make(far)
    assert str(caught.value) == r"host (lab kvm): a loop device is not understood: 'no\n'"


@pytest.mark.parametrize(
    ("size", "options", "error", "text"),
    [
        (
            "1 KiB",
            {},
            CannotStart,
            "a disk of 1 KiB is too small: at least 1 MiB",
        ),
        (
            "1 MiB",
            {"format": "xfs"},
            ValueError,
            "format is 'xfs', not 'ext4', or '' for a raw disk",
        ),
        (
            "1 MiB",
            {"below": "memory"},
            Unavailable,
            "a disk in memory can only be made on this machine",
        ),
    ],
)
def test_a_size_format_or_place_that_cannot_be_had_is_refused(
    far: Far, size: str, options: dict[str, Any], error: type[Exception], text: str
) -> None:
    with pytest.raises(error) as caught:
        make(far, size, **options)
    assert str(caught.value) == text
    assert not far.commands
