"""Reading ELF headers; no other file is taken for a program."""

from __future__ import annotations

import platform
import sys
from pathlib import Path

from hypothesis import given
from hypothesis import strategies as st

from pytest_vperf.targets.image.elf import Elf, read_elf

PYTHON = Path(sys.executable).resolve().read_bytes()


def test_a_program_of_this_machine() -> None:
    elf = read_elf(Path("/bin/sh").resolve().read_bytes())
    assert elf is not None
    assert elf.machine == platform.machine()
    assert elf.is_native
    assert "ld-" in elf.interpreter
    assert Path(elf.interpreter).exists()


def test_a_program_for_another_machine() -> None:
    content = bytearray(PYTHON)
    content[18:20] = (183).to_bytes(2, "little")
    elf = read_elf(bytes(content))
    assert elf is not None
    assert (elf.machine, elf.is_native) == ("aarch64", False)
    content[18:20] = (9).to_bytes(2, "little")
    elf = read_elf(bytes(content))
    assert elf is not None
    assert elf.machine == "machine 9"


def test_files_that_are_not_programs() -> None:
    assert [read_elf(data) for data in (b"", b"#!/bin/sh\n", b"\x7fELF", b"\x7fELF" * 4)] == [
        None
    ] * 4


@given(st.binary(max_size=300), st.integers(0, 200), st.integers(60, 4000))
def test_damaged_programs_are_read_without_an_error(noise: bytes, at: int, length: int) -> None:
    content = (PYTHON[:at] + noise + PYTHON[at + len(noise) :])[:length]
    assert isinstance(read_elf(content), (Elf, type(None)))
