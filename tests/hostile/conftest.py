"""The targets of attacks are real: QEMU, an engine, files; so is the other user of this machine."""

from __future__ import annotations

import os
import shutil
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from engine_here import engine, one_cache, require_fixture, rootfs, session_run, short_folder

if TYPE_CHECKING:
    from collections.abc import Iterator

__all__ = ["engine", "one_cache", "require_fixture", "rootfs", "session_run", "short_folder"]


@pytest.fixture
def root() -> None:
    """The test acts as another user, which only root can."""
    if os.geteuid():
        pytest.skip("only root can act as another user")


@pytest.fixture
def open_folder() -> Iterator[Path]:
    """A folder like /tmp: anyone may create files in it and remove their own; its parents are accessible to all."""
    folder = Path(tempfile.mkdtemp(prefix="vperf-test-", dir="/var/tmp"))
    folder.chmod(0o1777)
    yield folder
    shutil.rmtree(folder)
