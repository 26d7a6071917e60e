"""Where a command's answer goes: to the terminal as a table, or whole into a file."""

from __future__ import annotations

import shutil
import sys
from typing import TYPE_CHECKING

from pytest_vperf.machine.whole_file import write_whole
from pytest_vperf.reporting.console import say

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path


def show(
    program: str,
    written: str,
    text: Callable[[int | None, bool], str],
    output: Path | None,
) -> bool:
    """Show it; whether that worked.

    Args:
        program: as messages name it.
        written: as Markdown or JSON; empty: as text.
        text: makes the text for lines of a length, ``None`` without end, and with or without colour.
        output: the file; ``None`` is standard output.
    """
    if not written:
        terminal = sys.stdout.isatty()
        written = text(shutil.get_terminal_size().columns if terminal else None, terminal)
    if output is None:
        sys.stdout.write(written)
        return True
    try:
        write_whole(output, written)
    except OSError as error:
        say(program, f"{output}: {error.strerror or error}")
        return False
    return True
