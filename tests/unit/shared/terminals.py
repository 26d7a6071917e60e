"""Runs pytest on a terminal."""

from __future__ import annotations

import os
import sys
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from collections.abc import Sequence


def on_a_terminal(
    project: pytest.Pytester, options: Sequence[str] = (), columns: int = 100, **environment: str
) -> str:
    """Everything that pytest writes on a terminal, escape sequences included."""
    pexpect = pytest.importorskip("pexpect")
    terminal = pexpect.spawn(
        sys.executable,
        ["-m", "pytest", "-p", "no:cacheprovider", *options],
        cwd=str(project.path),
        dimensions=(40, columns),
        encoding="utf-8",
        timeout=60,
        env={**os.environ, "TERM": "xterm", **environment},
    )
    text: str = terminal.read()
    return text
