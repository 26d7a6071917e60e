"""A line for whoever waits at the terminal, or reads a log of it: something takes long, once."""

from __future__ import annotations

import contextlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from contextlib import AbstractContextManager

    import pytest


def say(config: pytest.Config, text: str) -> None:
    """Print a line that stays; not in a worker of pytest-xdist, which has no terminal, nor with ``-qq``."""
    reporter: Any = config.pluginmanager.get_plugin("terminalreporter")
    if reporter is None or config.getoption("verbose") <= -2:
        return
    capture: Any = config.pluginmanager.get_plugin("capturemanager")
    aside: AbstractContextManager[object] = contextlib.nullcontext()
    if capture is not None:
        aside = capture.global_and_fixture_disabled()
    with aside:
        reporter.ensure_newline()
        reporter.write_line(f"claims: {text}")
        reporter.flush()
