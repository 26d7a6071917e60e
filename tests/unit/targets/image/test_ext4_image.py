"""A tar file as an ext4 disk, read by the file system's own tools."""

from __future__ import annotations

import re
import subprocess
import tarfile
import time
from typing import TYPE_CHECKING

import pytest

from pytest_vperf.machine.preflight import find_program
from pytest_vperf.targets.base import CannotStart, Unavailable
from pytest_vperf.targets.image import ext4
from pytest_vperf.targets.image.ext4 import write_ext4

if TYPE_CHECKING:
    from pathlib import Path

SIZE = 8 << 20


def add(archive: tarfile.TarFile, name: str, kind: bytes, mode: int, owner: int, to: str) -> None:
    import io

    entry = tarfile.TarInfo(name)
    entry.type, entry.mode, entry.uid, entry.gid = kind, mode, owner, owner + (owner > 0)
    data = to.encode() if kind == tarfile.REGTYPE else b""
    entry.size, entry.linkname = len(data), "" if data else to
    archive.addfile(entry, io.BytesIO(data))


@pytest.fixture
def tar(tmp_path: Path) -> Path:
    path = tmp_path / "tree.tar"
    with tarfile.open(path, "w:", format=tarfile.GNU_FORMAT) as archive:
        for name, kind, mode, owner, to in (
            ("etc", tarfile.DIRTYPE, 0o755, 0, ""),
            ("etc/shadow", tarfile.REGTYPE, 0o640, 0, "secret\n"),
            ("bin", tarfile.DIRTYPE, 0o755, 0, ""),
            ("bin/su", tarfile.REGTYPE, 0o4755, 0, "#!/bin/sh\n" * 900),
            ("bin/sh", tarfile.SYMTYPE, 0o777, 0, "su"),
            ("bin/same", tarfile.LNKTYPE, 0o4755, 0, "bin/su"),
            ("home", tarfile.DIRTYPE, 0o2771, 7, ""),
            ("home/it's mine", tarfile.REGTYPE, 0o600, 33, "x"),
            ("tmp", tarfile.DIRTYPE, 0o1777, 0, ""),
        ):
            add(archive, name, kind, mode, owner, to)
    return path


def written(tar: Path, name: str) -> Path:
    """Write the disk; skips the test where none can be made."""
    for program in ("mke2fs", "debugfs", "dumpe2fs"):
        if find_program(program) is None:
            pytest.skip(f"{program} is not installed")
    disk = tar.with_name(name)
    try:
        write_ext4(tar, disk, SIZE)
    except Unavailable as error:  # an ordinary user without subordinate users
        pytest.skip(str(error))
    return disk


def tool(name: str, *arguments: str) -> str:
    done = subprocess.run(
        [str(find_program(name)), *arguments],
        capture_output=True,
        text=True,
        check=True,
        timeout=60,
        env={"LC_ALL": "C"},
    )
    return done.stdout


def files(disk: Path, folder: str) -> dict[str, tuple[str, int, int]]:
    """Name → mode, user and group of each entry in a folder of the disk."""
    found = {}
    for line in tool("debugfs", "-R", f"ls -p {folder}", str(disk)).splitlines():
        # /inode/mode/user/group/name/size/
        _, _, mode, user, group, name, *_ = line.split("/") if line else [""] * 7
        if name not in ("", ".", "..", "lost+found"):
            found[name] = (mode, int(user), int(group))
    return found


def test_files_have_their_owners_and_modes(tar: Path) -> None:
    disk = written(tar, "disk")
    assert files(disk, "/") == {
        "etc": ("040755", 0, 0),
        "bin": ("040755", 0, 0),
        "home": ("042771", 7, 8),
        "tmp": ("041777", 0, 0),
    }
    assert files(disk, "/bin") == {
        "su": ("104755", 0, 0),
        "sh": ("120777", 0, 0),
        "same": ("104755", 0, 0),
    }
    assert files(disk, "/home") == {"it's mine": ("100600", 33, 34)}
    assert files(disk, "/etc") == {"shadow": ("100640", 0, 0)}
    assert tool("debugfs", "-R", "cat /bin/su", str(disk)) == "#!/bin/sh\n" * 900
    assert 'Fast link dest: "su"' in tool("debugfs", "-R", "stat /bin/sh", str(disk))
    # One file with two names.
    assert "Links: 2" in tool("debugfs", "-R", "stat /bin/same", str(disk))


def test_the_file_system_is_whole_and_has_no_journal(tar: Path) -> None:
    disk = written(tar, "disk")
    check = find_program("e2fsck")
    assert check is not None
    subprocess.run([check, "-fn", disk], capture_output=True, check=True, timeout=60)
    said = dict(re.findall(r"(?m)^([^:\n]+):\s+(.*)$", tool("dumpe2fs", "-h", str(disk))))
    assert said["Filesystem volume name"] == "vperf-root"
    assert said["Filesystem state"] == "clean"
    assert said["Reserved block count"] == "0"
    assert "has_journal" not in said["Filesystem features"]
    assert "extent" in said["Filesystem features"]


def test_the_disk_is_sparse_and_nothing_else_is_left(tar: Path) -> None:
    disk = written(tar, "disk")
    status = disk.stat()
    assert status.st_size == SIZE
    assert status.st_blocks * 512 < SIZE // 2
    assert sorted(path.name for path in tar.parent.iterdir()) == ["disk", "tree.tar"]


def inode_tables(disk: Path) -> list[range]:
    """Their byte ranges on the disk."""
    said = tool("dumpe2fs", str(disk))
    size = int(re.findall(r"Block size:\s+(\d+)", said)[0])
    found = re.findall(r"Inode table at (\d+)-(\d+)", said)
    assert found
    return [range(int(first) * size, (int(last) + 1) * size) for first, last in found]


def test_two_builds_differ_only_in_their_inode_times(tar: Path) -> None:
    """Everything outside the inodes is equal byte by byte: names, places, UUID and hash seed."""
    first = written(tar, "first")
    began = int(time.time())
    while int(time.time()) == began:  # as builds on two days
        time.sleep(0.02)
    second = written(tar, "second")
    tables = inode_tables(first)
    one, other = bytearray(first.read_bytes()), bytearray(second.read_bytes())
    for table in tables:
        for content in (one, other):
            content[table.start : table.stop] = bytes(len(table))
    assert one == other
    for path in ("/etc/shadow", "/bin/su", "/home"):
        asked = ("-R", f"stat {path}")
        same = [
            re.sub(r"(?m)^ ?[ac]time:.*\n|Inode checksum:.*\n", "", tool("debugfs", *asked, str(d)))
            for d in (first, second)
        ]
        assert same[0] == same[1]
        assert "mtime: 0x00000000" in same[0]


def test_a_tree_that_does_not_fit_is_refused(tar: Path) -> None:
    written(tar, "fits")
    with tarfile.open(tar, "a:") as archive:
        add(archive, "large", tarfile.REGTYPE, 0o644, 0, "x" * SIZE)
    disk = tar.with_name("disk")
    with pytest.raises(CannotStart) as caught:
        write_ext4(tar, disk, SIZE)
    assert str(caught.value).startswith(f"{tar} does not fit into a disk of 8 MiB: ")
    assert sorted(path.name for path in tar.parent.iterdir()) == ["fits", "tree.tar"]


def test_files_that_are_not_tar_archives_are_refused(tar: Path) -> None:
    written(tar, "fits")
    broken = tar.with_name("broken.tar")
    broken.write_bytes(b"rubbish" * 1000)
    with pytest.raises(CannotStart) as caught:
        write_ext4(broken, tar.with_name("disk"), SIZE)
    assert str(caught.value).startswith(
        f"no disk can be built from {broken}: tar: This does not look like a tar archive"
    )
    assert not tar.with_name("disk").exists()


def test_a_missing_mke2fs_is_reported_with_its_package(
    tar: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(ext4, "find_program", lambda name: None)
    with pytest.raises(Unavailable) as caught:
        write_ext4(tar, tar.with_name("disk"), SIZE)
    assert (caught.value.reason, caught.value.remedy) == (
        "mke2fs is not installed",
        "apt-get install e2fsprogs",
    )
    assert not tar.with_name("disk").exists()
