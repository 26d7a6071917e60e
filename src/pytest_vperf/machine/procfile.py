"""Small files in /proc, /sys and /etc, any of which may be absent or unreadable."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    #: Reads a small file of this or another machine as text. Raises OSError if it cannot.
    Read = Callable[[Path], str]


def text(path: Path) -> str:
    """The text of a file of this machine; bytes that are not UTF-8 are kept as surrogates.

    Raises:
        OSError: it cannot be read.
    """
    return path.read_text(errors="surrogateescape")


def content(path: Path) -> str | None:
    """The text of a file; ``None`` if it cannot be read. Bytes that are not UTF-8 are replaced."""
    try:
        return path.read_bytes().decode("utf-8", "replace")
    except OSError:
        return None


def first_line(path: Path) -> str | None:
    """The first line without surrounding space and NUL (which ends texts in the device tree); ``None`` if empty."""
    text = (content(path) or "").replace("\0", "\n").strip()
    return text.splitlines()[0].strip() if text else None
