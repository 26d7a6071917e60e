"""A missing part of the compiler is told apart from an error in the program."""

from __future__ import annotations

from pathlib import Path

import pytest

from pytest_vperf.machine import compiler


@pytest.fixture(autouse=True)
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("VPERF_CACHE_DIR", str(tmp_path / "cache"))


def put(folder: Path, monkeypatch: pytest.MonkeyPatch, words: str) -> None:
    program = folder / "cc"
    program.write_text(
        f'#!/bin/sh\n[ "$1" = --version ] && echo cc 1 && exit\n'
        f'[ "$LC_ALL" = C ] && echo "{words}" >&2\nexit 1\n'
    )
    program.chmod(0o755)
    monkeypatch.setenv("PATH", f"{folder}:/usr/bin:/bin")


# Messages of gcc 12, clang 14, GNU ld 2.40 and lld 14.
@pytest.mark.parametrize(
    "words",
    [
        "main.c:1:10: fatal error: stdio.h: No such file or directory",
        "main.c:1:10: fatal error: 'stdio.h' file not found",
        "/usr/bin/ld: cannot find -lc: No such file or directory",
        "/usr/bin/ld: cannot find -lm",
        "ld.lld: error: unable to find library -lc",
        "/usr/bin/ld: cannot find crt1.o: No such file or directory",
    ],
)
def test_without_a_static_library_there_is_no_compiler(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, words: str
) -> None:
    put(tmp_path, monkeypatch, words)
    with pytest.raises(compiler.CompilerMissing, match="cc has no static C library") as caught:
        compiler.build("agent", "agent", {"main.c": b""}, ())
    assert caught.value.remedy.startswith("apt-get install libc6-dev")


def test_errors_in_a_program_are_shown_in_the_compilers_words(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    put(tmp_path, monkeypatch, "main.c:1: error: expected ;")
    with pytest.raises(compiler.CompilerFailed, match=r"agent does not compile .*\n.*expected ;"):
        compiler.build("agent", "agent", {"main.c": b""}, ())


def test_what_a_killed_compiler_leaves_goes_with_the_cache_entrys_draft(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    put(tmp_path, monkeypatch, "killed")
    program = tmp_path / "cc"
    program.write_text(
        program.read_text().replace(
            "exit 1", f'touch "$TMPDIR/left.o"; echo "$TMPDIR" >{tmp_path}/said; kill -9 $$'
        )
    )
    with pytest.raises(compiler.CompilerFailed):
        compiler.build("agent", "agent", {"main.c": b""}, ())
    said = Path((tmp_path / "said").read_text().strip())
    assert said.is_relative_to(tmp_path / "cache")
    assert not said.exists()
