"""A lock on an open file is taken at once or not at all, and released with the file."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from pytest_vperf.machine.lock import try_lock

if TYPE_CHECKING:
    from pathlib import Path


@pytest.mark.parametrize(
    ("first", "second", "both"),
    [(False, False, False), (False, True, False), (True, False, False), (True, True, True)],
)
def test_only_shared_locks_can_be_held_together(
    tmp_path: Path, first: bool, second: bool, both: bool
) -> None:
    file = tmp_path / "file"
    file.touch()
    with file.open() as one, file.open() as two:
        assert try_lock(one.fileno(), shared=first)
        assert try_lock(two.fileno(), shared=second) is both
        one.close()
        assert try_lock(two.fileno(), shared=second)
