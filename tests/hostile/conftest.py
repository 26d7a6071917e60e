"""What is attacked here is real: QEMU, an engine, files, another user of this machine."""

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
    """The test takes another user's place, which only root can."""
    if os.geteuid():
        pytest.skip("only root can act as another user")


@pytest.fixture
def open_folder() -> Iterator[Path]:
    """A folder as /tmp is: everybody may make files in it, and remove their own; its parents let everybody pass."""
    folder = Path(tempfile.mkdtemp(prefix="vperf-test-", dir="/var/tmp"))
    folder.chmod(0o1777)
    yield folder
    shutil.rmtree(folder)
