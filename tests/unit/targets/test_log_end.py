"""The part of a daemon's log that a message shows."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from pytest_vperf.targets.base import last_lines

if TYPE_CHECKING:
    from pathlib import Path


@pytest.mark.parametrize(
    ("log", "shown"),
    [
        (b"", "(none)"),
        (b"\n \n", "(none)"),
        (b"one\ntwo\n\n", "one\ntwo"),
        ("".join(f"{n}\n" for n in range(20)).encode(), "12\n13\n14\n15\n16\n17\n18\n19"),
        (b"x" * 1000 + b"\nend", "x" * 400 + "\nend"),
        (b"no \xff text", "no \ufffd text"),
    ],
)
def test_the_last_lines(tmp_path: Path, log: bytes, shown: str) -> None:
    (tmp_path / "log").write_bytes(log)
    assert last_lines(tmp_path / "log") == shown
