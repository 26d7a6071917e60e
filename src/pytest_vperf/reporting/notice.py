"""A line for whoever waits at the terminal, or reads a log of it: something takes long, once."""

from __future__ import annotations

import contextlib
from typing import TYPE_CHECKING, Any

from pytest_vperf import foreign_text

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
        if reporter._tw.width_of_current_line:  # letters of a controller of pytest-xdist
            reporter._tw.line()
        reporter.write_line(f"claims: {foreign_text.line(text)}")
        reporter.flush()
