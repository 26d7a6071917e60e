"""Data from a target is limited: a command's output, and files; an endless sender is ended."""

from __future__ import annotations

import os
import stat
import sys
import tempfile
import time
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pytest_vperf.targets.base import Completed, TargetError, TimedOut, TooMuchOutput
from pytest_vperf.targets.host import Host
from pytest_vperf.targets.process import OutOfRoom, OutOfTime, Output, received, run_process, size

HOST = Host()
SAYS = "import os, sys; os.write(int(sys.argv[1]), b'x' * int(sys.argv[2]))"


def printed(count: int, *, max_output: int, stream: int = 1) -> Completed:
    argv = [sys.executable, "-c", SAYS, str(stream), str(count)]
    return HOST.run(argv, max_output=max_output)


@pytest.mark.parametrize("stream", [1, 2])
def test_output_may_reach_but_not_exceed_its_limit(stream: int) -> None:
    done = printed(1000, max_output=1000, stream=stream)
    assert len(done.stdout + done.stderr) == 1000
    with pytest.raises(TooMuchOutput) as caught:
        printed(1001, max_output=1000, stream=stream)
    assert len(caught.value.stdout + caught.value.stderr) == 1000
    assert "printed more than 1000 bytes in host, and was ended: let it write to a file" in str(
        caught.value
    )


def test_endless_output_ends_the_command(tmp_path: Path) -> None:
    note = tmp_path / "pid"
    with pytest.raises(TooMuchOutput, match="more than 8 MiB in host"):
        HOST.run(["sh", "-c", f"echo $$ >{note}; exec yes"], max_output=8 << 20)
    with pytest.raises(ProcessLookupError):
        os.kill(int(note.read_text()), 0)


def test_endless_output_respects_the_time_limit() -> None:
    """Readable data must not hide the time limit."""
    with Path(os.devnull).open("wb") as nowhere, pytest.raises(OutOfTime):
        run_process(["yes"], env=dict(os.environ), timeout=0.3, max_output=1 << 60, stdout=nowhere)


def test_an_escaped_process_that_keeps_printing_is_not_waited_for(tmp_path: Path) -> None:
    """It has another session and another parent, so it is not found, and keeps the pipe open."""
    note = tmp_path / "pid"
    script = f"(setsid sh -c 'echo $$ >{note}; exec yes' &) ; while [ ! -s {note} ]; do :; done"
    began = time.monotonic()
    try:
        with pytest.raises(OutOfRoom):
            run_process(["sh", "-c", script], env=dict(os.environ), max_output=1 << 20)
        assert time.monotonic() - began < 30
    finally:
        os.kill(int(note.read_text()), 9)


@given(st.lists(st.tuples(st.booleans(), st.binary(max_size=20)), max_size=20), st.integers(0, 99))
def test_the_beginning_of_the_output_is_kept(pieces: list[tuple[bool, bytes]], most: int) -> None:
    output = Output(most)
    for is_error, data in pieces:
        (output.take_stderr if is_error else output.take_stdout)(data)
    total = sum(len(data) for _, data in pieces)
    assert len(output.stdout) + len(output.stderr) == min(total, most)
    assert output.is_full == (total > most)
    for kept, wanted in ((output.stdout, False), (output.stderr, True)):
        assert b"".join(data for is_error, data in pieces if is_error == wanted).startswith(kept)


def test_output_that_goes_to_a_file_is_not_kept() -> None:
    with tempfile.TemporaryFile() as file:
        output = Output(10, file)
        output.take_stdout(b"content")
        file.seek(0)
        assert (output.stdout, file.read()) == (b"", b"content")


@pytest.mark.parametrize(
    ("count", "words"),
    [(8 << 20, "8 MiB"), (3 << 30, "3 GiB"), (1536, "1536 bytes"), (2048, "2 KiB"), (0, "0 bytes")],
)
def test_sizes_are_formatted_with_a_unit(count: int, words: str) -> None:
    assert size(count) == words


def test_a_received_file_has_no_privileges(tmp_path: Path) -> None:
    (tmp_path / "source").write_bytes(b"content")
    (tmp_path / "source").chmod(0o6777)
    HOST.get(str(tmp_path / "source"), tmp_path / "got")
    assert stat.S_IMODE((tmp_path / "got").stat().st_mode) == 0o755
    assert (tmp_path / "got").read_bytes() == b"content"


def test_a_file_may_reach_but_not_exceed_its_limit(tmp_path: Path) -> None:
    (tmp_path / "source").write_bytes(bytes(1000))
    HOST.get(str(tmp_path / "source"), tmp_path / "got", limit=1000)
    with pytest.raises(TooMuchOutput) as caught:
        HOST.get(str(tmp_path / "source"), tmp_path / "other", limit=999)
    assert str(caught.value) == (
        f"{tmp_path / 'source'} in host has more than 999 bytes: give get() a larger limit"
    )
    assert sorted(each.name for each in tmp_path.iterdir()) == ["got", "source"]


@pytest.mark.parametrize("kind", ["pipe", "device", "folder"])
def test_only_regular_files_are_fetched(tmp_path: Path, kind: str) -> None:
    source = tmp_path / "source"
    if kind == "pipe":
        os.mkfifo(source)
    elif kind == "folder":
        source.mkdir()
    else:
        source = Path("/dev/zero")
    with pytest.raises(TargetError, match=r"cannot be copied to .*: it is not a regular file"):
        HOST.get(str(source), tmp_path / "got")
    assert not (tmp_path / "got").exists()


def test_a_link_at_the_destination_is_replaced(tmp_path: Path) -> None:
    (tmp_path / "source").write_text("new")
    (tmp_path / "precious").write_text("ours")
    (tmp_path / "got").symlink_to(tmp_path / "precious")
    HOST.get(str(tmp_path / "source"), tmp_path / "got")
    assert not (tmp_path / "got").is_symlink()
    assert [(tmp_path / each).read_text() for each in ("got", "precious")] == ["new", "ours"]


def test_a_destination_that_is_not_a_file_stays(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "got")
    (tmp_path / "source").write_text("new")
    with pytest.raises(TargetError, match="got cannot be written: it is not a regular file"):
        HOST.get(str(tmp_path / "source"), tmp_path / "got")
    assert stat.S_ISFIFO((tmp_path / "got").stat().st_mode)


def test_an_incomplete_file_does_not_appear(tmp_path: Path) -> None:
    (tmp_path / "got").write_text("before")
    coming = received(tmp_path / "got", "pod tcg")
    draft = coming.__enter__()
    draft.file.write(b"half")
    assert stat.S_IMODE(os.fstat(draft.file.fileno()).st_mode) == 0o600
    error = TimedOut("it took too long")
    assert not coming.__exit__(TimedOut, error, None)
    assert [each.name for each in tmp_path.iterdir()] == ["got"]
    assert (tmp_path / "got").read_text() == "before"


def test_a_missing_folder_is_reported(tmp_path: Path) -> None:
    with (
        pytest.raises(TargetError) as caught,
        received(tmp_path / "no" / "got", "pod tcg"),
    ):
        pass
    assert str(caught.value) == (
        f"{tmp_path / 'no' / 'got'} cannot be written: No such file or directory"
    )
