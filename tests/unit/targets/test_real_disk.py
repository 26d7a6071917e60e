"""A block device that may be overwritten is one that the user named; tests with real ones need root."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from pytest_vperf.targets import real_disk
from pytest_vperf.targets.base import CannotStart, Unavailable
from pytest_vperf.targets.disks import Disks
from pytest_vperf.targets.scope import Scope

if TYPE_CHECKING:
    from pathlib import Path


def disks(*named: str) -> Disks:
    return Disks(None, Scope(), named)  # type: ignore[arg-type]


def test_a_test_cannot_name_a_disk() -> None:
    for named in ((), ("/dev/vdb",)):
        with pytest.raises(
            Unavailable,
            match=r"^/dev/vda was not named as a disk that may be overwritten \(to mend it:"
            r" --vperf-disk=/dev/vda, and all that is on it is lost\)$",
        ):
            disks(*named).use("/dev/vda")


def test_without_a_name_there_is_none() -> None:
    with pytest.raises(
        Unavailable,
        match=r"^no disk was named that may be overwritten \(to mend it: --vperf-disk=/dev/…, and all that"
        r" is on it is lost\)$",
    ):
        disks().use()


def test_what_is_named_has_to_be_a_block_device(tmp_path: Path) -> None:
    file = tmp_path / "file"
    file.write_bytes(b"mine")
    link = tmp_path / "link"
    link.symlink_to(file)
    for named in (str(file), str(link)):
        with pytest.raises(CannotStart, match=rf"^{named} is no block device$"):
            disks(named).use()
    with pytest.raises(CannotStart, match=r"^/dev/null is no block device$"):
        disks("/dev/null").use()
    with pytest.raises(CannotStart, match=r"^/no/such cannot be used: No such file or directory$"):
        disks("/no/such").use()
    assert file.read_bytes() == b"mine"


def test_a_link_to_what_was_named_is_named_and_no_other(tmp_path: Path) -> None:
    file = tmp_path / "file"
    file.write_bytes(b"mine")
    (tmp_path / "link").symlink_to(file)
    (tmp_path / "other").write_bytes(b"theirs")
    with pytest.raises(CannotStart, match="is no block device"):
        real_disk.find(str(tmp_path / "link"), [str(file)])
    with pytest.raises(Unavailable, match="was not named"):
        real_disk.find(str(tmp_path / "other"), [str(tmp_path / "link")])


@pytest.mark.parametrize(
    ("options", "error", "message"),
    [
        ({"size": "100 KiB"}, CannotStart, r"^a disk of 100 KiB is too small: at least 1 MiB$"),
        (
            {"format": "xfs"},
            ValueError,
            r"^format is 'xfs', not 'ext4', or '' for a raw disk$",
        ),
    ],
)
def test_bad_options_are_refused(
    options: dict[str, Any], error: type[Exception], message: str
) -> None:
    with pytest.raises(error, match=message):
        disks("/dev/null").use(**options)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (
            ("--vperf-disk=sdb",),
            "--vperf-disk: 'sdb' is not the path of a block device, such as /dev/sdb",
        ),
        (
            ("--vperf-disk=/dev/sdb", "-n1"),
            "--vperf-disk: one test at a time may write to a disk: run without pytest-xdist's -n",
        ),
    ],
)
def test_a_mistake_says_what_is_right(
    pytester: pytest.Pytester, options: tuple[str, ...], message: str
) -> None:
    pytester.makepyfile("def test_it(disks): pass")
    result = pytester.runpytest(*options)
    assert result.ret == pytest.ExitCode.USAGE_ERROR
    assert f"ERROR: {message}" in result.stderr.str().splitlines()


NOT_TYPED = (
    "ERROR: --vperf-disk: /dev/sdb is named by addopts, PYTEST_ADDOPTS or a file of arguments, and may be another"
    " disk on this machine than where that was written: name it on the command line"
)


@pytest.mark.parametrize("words", [["--vperf-disk=/dev/sdb"], ["--vperf-disk", "/dev/sdb"]])
@pytest.mark.parametrize("place", ["addopts", "environment", "command line"])
def test_the_command_line_alone_names_a_disk(
    pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch, words: list[str], place: str
) -> None:
    pytester.makepyfile("def test_it(claim): claim('a.b').measure(lambda: 1)")
    if place == "addopts":
        pytester.makeini(f"[pytest]\naddopts = {' '.join(words)}\n")
    elif place == "environment":
        monkeypatch.setenv("PYTEST_ADDOPTS", " ".join(words))
    # The same option with another disk does not make it typed.
    typed = words if place == "command line" else ["--vperf-disk=/dev/sda"]
    result = pytester.runpytest(*typed, "--collect-only")
    assert (NOT_TYPED in result.errlines) == (place != "command line")
    assert (result.ret == pytest.ExitCode.USAGE_ERROR) == (place != "command line")


@pytest.mark.parametrize("place", ["ini", "toml", "-o"])
def test_a_disk_is_no_ini_setting(pytester: pytest.Pytester, place: str) -> None:
    pytester.makepyfile("def test_it(): pass")
    words = []
    if place == "ini":
        pytester.makeini("[pytest]\nvperf_disk = /dev/sdb\n")
    elif place == "toml":
        pytester.makepyprojecttoml("[tool.pytest.ini_options]\nvperf_disk = ['/dev/sdb']\n")
    else:
        words = ["-o", "vperf_disk=/dev/sdb"]
    result = pytester.runpytest(*words)
    assert result.ret == pytest.ExitCode.USAGE_ERROR
    assert [line for line in result.errlines if line] == [
        "ERROR: vperf_disk is no ini setting, since a file goes to other machines with its project: give"
        " --vperf-disk on the command line"
    ]
