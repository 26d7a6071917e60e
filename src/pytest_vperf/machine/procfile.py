"""Small files of /proc, /sys and /etc, any of which may be absent or closed to us."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pathlib import Path


def content(path: Path) -> str | None:
    """The text of a file; ``None`` where it cannot be read. Bytes that are not UTF-8 are replaced."""
    try:
        return path.read_bytes().decode("utf-8", "replace")
    except OSError:
        return None


def first_line(path: Path) -> str | None:
    """The first line without surrounding space and NUL (the device tree ends texts so); ``None`` if empty."""
    text = (content(path) or "").replace("\0", "\n").strip()
    return text.splitlines()[0].strip() if text else None
