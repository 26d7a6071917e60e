"""A writer for the archive that Linux unpacks as its first root: cpio, "newc" format.

Format: Linux kernel documentation, driver-api/early-userspace/buffer-format.
"""

from __future__ import annotations

import stat
from dataclasses import dataclass, field


@dataclass
class Archive:
    """Files in the order they were added, all owned by root and dated 0, so that equal input gives equal bytes."""

    _blocks: list[bytes] = field(default_factory=list)

    def folder(self, name: str) -> None:
        """Add a folder; its parents must have been added before."""
        self._add(name, stat.S_IFDIR | 0o755)

    def file(self, name: str, content: bytes, mode: int = 0o644) -> None:
        """Add a regular file."""
        self._add(name, stat.S_IFREG | mode, content)

    def device(self, name: str, major: int, minor: int) -> None:
        """Add a character device."""
        self._add(name, stat.S_IFCHR | 0o600, device=(major, minor))

    def _add(
        self, name: str, mode: int, content: bytes = b"", device: tuple[int, int] = (0, 0)
    ) -> None:
        path = name.encode() + b"\0"
        # ino, mode, uid, gid, nlink, mtime, filesize, devmajor, devminor, rdevmajor, rdevminor, namesize, check
        fields = (
            len(self._blocks) + 1,
            mode,
            0,
            0,
            1,
            0,
            len(content),
            0,
            0,
            *device,
            len(path),
            0,
        )
        header = b"070701" + b"".join(b"%08x" % value for value in fields)
        self._blocks.append(_padded(header + path) + _padded(content))

    def bytes(self) -> bytes:
        """The whole archive."""
        end = Archive()
        end._add("TRAILER!!!", 0)
        return b"".join(self._blocks) + end._blocks[0]


def _padded(data: bytes) -> bytes:
    return data + b"\0" * (-len(data) % 4)
