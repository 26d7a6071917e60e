"""Files that appear whole or not at all, at the given path, and never through somebody else's link."""

from __future__ import annotations

import os
import stat
import threading
from contextlib import suppress
from pathlib import Path

import pytest

from pytest_vperf.cli import main
from pytest_vperf.machine import whole_file
from pytest_vperf.machine.whole_file import write_whole

NOBODY = 65534
as_root = pytest.mark.skipif(os.geteuid() != 0, reason="only root can give files to another user")


@pytest.fixture
def shared(tmp_path: Path) -> Path:
    """A folder like /tmp."""
    folder = tmp_path / "shared"
    folder.mkdir()
    folder.chmod(0o1777)
    return folder


def test_a_device_is_written_to_and_stays(tmp_path: Path) -> None:
    before = Path("/dev/null").stat()
    link = tmp_path / "null"
    link.symlink_to("/dev/null")
    for path in (Path("/dev/null"), link):
        write_whole(path, "text")
    after = Path("/dev/null").stat()
    assert stat.S_ISCHR(after.st_mode)
    assert (after.st_ino, after.st_rdev) == (before.st_ino, before.st_rdev)
    assert link.is_symlink()


@as_root
def test_a_device_in_a_folder_that_may_be_written_is_written_to_and_stays(tmp_path: Path) -> None:
    device = tmp_path / "null"
    os.mknod(device, stat.S_IFCHR | 0o666, os.makedev(1, 3))
    write_whole(device, "text")
    assert stat.S_ISCHR(device.stat().st_mode)
    assert main(["schema", f"--output={device}"]) == 0
    assert stat.S_ISCHR(device.stat().st_mode)
    assert list(tmp_path.iterdir()) == [device]


def test_a_pipe_is_written_to_and_stays(tmp_path: Path) -> None:
    pipe, read = tmp_path / "pipe", list[str]()
    os.mkfifo(pipe)
    reader = threading.Thread(target=lambda: read.append(pipe.read_text()))
    reader.start()
    text = "x" * 1_000_000  # more than a pipe takes at once
    while reader.is_alive():
        with suppress(OSError):  # the reader has not opened it yet
            write_whole(pipe, text)
            reader.join()
    assert read == [text]
    assert stat.S_ISFIFO(pipe.stat().st_mode)


def test_a_pipe_that_nobody_reads_is_refused_at_once(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    os.mkfifo(tmp_path / "pipe")
    assert main(["schema", f"--output={tmp_path / 'pipe'}"]) == 1
    assert capsys.readouterr().err == (
        f"vperf schema: {tmp_path / 'pipe'}: is a pipe that nobody reads\n"
    )
    assert stat.S_ISFIFO((tmp_path / "pipe").stat().st_mode)


def test_standard_output_is_written_at_its_position(
    tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    print("before")
    for name in ("/dev/stdout", "/dev/fd/1", "/proc/self/fd/1"):
        write_whole(Path(name), f"{name}\n")
    print("after")
    assert capfd.readouterr().out == "before\n/dev/stdout\n/dev/fd/1\n/proc/self/fd/1\nafter\n"


@pytest.mark.parametrize("kind", ["folder", "socket"])
def test_places_that_cannot_be_written_to_are_refused(tmp_path: Path, kind: str) -> None:
    import socket

    path = tmp_path / "it"
    if kind == "folder":
        path.mkdir()
    else:
        with socket.socket(socket.AF_UNIX) as listening:
            listening.bind(str(path))
    before = path.lstat()
    with pytest.raises(OSError, match=r"Is a directory|is not a regular file"):
        write_whole(path, "text")
    assert path.lstat().st_ino == before.st_ino


def test_links_are_followed_and_stay(tmp_path: Path) -> None:
    (tmp_path / "folder").mkdir()
    goal = tmp_path / "folder" / "goal"
    (tmp_path / "way").symlink_to("folder")
    (tmp_path / "one").symlink_to("./way/../two")
    (tmp_path / "two").symlink_to(tmp_path / "way" / "goal")
    write_whole(tmp_path / "one", "text")
    assert goal.read_text() == "text"
    assert not goal.is_symlink()
    assert (tmp_path / "one").is_symlink()
    assert (tmp_path / "two").is_symlink()


def test_circular_links_are_an_error(tmp_path: Path) -> None:
    (tmp_path / "a").symlink_to("b")
    (tmp_path / "b").symlink_to("a")
    with pytest.raises(OSError, match="Too many levels of symbolic links"):
        write_whole(tmp_path / "a", "text")


@as_root
def test_a_link_of_others_in_a_shared_folder_is_not_followed(tmp_path: Path, shared: Path) -> None:
    ours, link = tmp_path / "ours", shared / "out.json"
    ours.write_text("ours")
    link.symlink_to(ours)
    os.chown(link, NOBODY, NOBODY, follow_symlinks=False)
    with pytest.raises(PermissionError) as error:
        write_whole(link, "theirs")
    assert error.value.strerror == (
        "is a link of nobody, in a folder that others can write to: remove it, or name another file"
    )
    with pytest.raises(PermissionError):
        write_whole(link / "deeper", "theirs")
    assert ours.read_text() == "ours"
    assert link.is_symlink()


@as_root
@pytest.mark.parametrize("kind", ["file", "pipe"])
def test_files_of_others_in_a_shared_folder_are_not_written_to(shared: Path, kind: str) -> None:
    path = shared / "out.json"
    path.write_text("theirs") if kind == "file" else os.mkfifo(path)
    os.chown(path, NOBODY, NOBODY)
    with pytest.raises(PermissionError, match="is of nobody, in a folder that others can write"):
        write_whole(path, "text")
    assert path.lstat().st_uid == NOBODY


@as_root
def test_a_link_is_not_followed_where_everybody_may_write(tmp_path: Path, shared: Path) -> None:
    """The kernel protects sticky folders alone."""
    shared.chmod(0o777)
    (tmp_path / "ours").write_text("ours")
    link = shared / "out.json"
    link.symlink_to(tmp_path / "ours")
    os.chown(link, NOBODY, NOBODY, follow_symlinks=False)
    with pytest.raises(OSError, match="is a link of nobody, in a folder that others can write to"):
        write_whole(link, "text")
    assert (tmp_path / "ours").read_text() == "ours"


@as_root
def test_a_link_of_the_folders_owner_is_followed(tmp_path: Path, shared: Path) -> None:
    os.chown(shared, NOBODY, NOBODY)
    link = shared / "out.json"
    link.symlink_to(tmp_path / "ours")
    os.chown(link, NOBODY, NOBODY, follow_symlinks=False)
    write_whole(link, "text")
    assert (tmp_path / "ours").read_text() == "text"


@as_root
def test_a_file_keeps_its_owner_and_mode_but_no_special_bits(tmp_path: Path) -> None:
    path = tmp_path / "theirs"
    path.write_text("old")
    os.chown(path, NOBODY, NOBODY)
    path.chmod(0o6750)
    write_whole(path, "new")
    found = path.stat()
    assert (found.st_uid, found.st_gid, stat.S_IMODE(found.st_mode)) == (NOBODY, NOBODY, 0o750)


def test_the_file_and_its_name_reach_the_disk_in_this_order(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A power cut cannot be tested: the order of the calls is checked instead."""
    done: list[str] = []
    real_sync, real_rename = os.fsync, os.rename

    def fsync(file: int) -> None:
        done.append("folder" if stat.S_ISDIR(os.fstat(file).st_mode) else "file")
        real_sync(file)

    def rename(old: str, new: str, *, src_dir_fd: int, dst_dir_fd: int) -> None:
        done.append("rename")
        real_rename(old, new, src_dir_fd=src_dir_fd, dst_dir_fd=dst_dir_fd)

    monkeypatch.setattr(os, "fsync", fsync)
    monkeypatch.setattr(os, "rename", rename)
    write_whole(tmp_path / "out.json", "text")
    assert done == ["file", "rename", "folder"]


def test_a_failed_write_leaves_the_old_file_and_nothing_else(tmp_path: Path) -> None:
    path = tmp_path / "out.json"
    path.write_text("old")

    def content() -> object:
        yield b"half"
        raise OSError(28, "No space left on device")

    with pytest.raises(OSError, match="No space left"), whole_file.place(path) as place:
        place.write(content())  # type: ignore[arg-type]
    assert path.read_text() == "old"
    assert list(tmp_path.iterdir()) == [path]
