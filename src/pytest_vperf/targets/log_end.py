"""The end of a daemon's log, for the message that it did not start."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pathlib import Path

#: Lines that are shown, and characters of each.
_COUNT, _WIDTH = 8, 400


def last_lines(log: Path) -> str:
    """The last lines of a log, long ones cut; ``(none)`` where it is empty.

    Raises:
        OSError: it cannot be read.
    """
    lines = log.read_text(errors="replace").strip().splitlines()[-_COUNT:]
    return "\n".join(line[:_WIDTH] for line in lines) or "(none)"
