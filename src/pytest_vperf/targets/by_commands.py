"""A target that is reached by commands alone, such as one of another container engine.

A subclass implements how a command is run in it, and how it is ended; files are copied by commands, and the programs
are those of its image.
"""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from pytest_vperf.targets.base import (
    MOST_FILE,
    Facts,
    Program,
    RunsCommands,
    TargetError,
    Unavailable,
    Usage,
    named,
)
from pytest_vperf.targets.image.programs import programs_of
from pytest_vperf.targets.process import received, too_large

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

    from pytest_vperf.targets.base import Completed
    from pytest_vperf.targets.image.rootfs import Rootfs

#: Bytes that are copied by one command, and held in memory.
_PIECE = 16 << 20
_WRITE = 'cat >"$1" && chmod "$2" "$1"'
_READ = """
[ -f "$1" ] || [ ! -e "$1" ] || { echo "it is not a regular file" >&2; exit 1; }
tail -c "+$2" -- "$1" | head -c "$3"
[ -r "$1" ] || cat -- "$1"
"""
#: Seconds that a file may take.
_LONGEST = 600.0


class CommandTarget(RunsCommands):
    """A target that is reached by commands; subclasses implement `_run` and `close`.

    Attributes:
        kind: of the target, see `pytest_vperf.targets.kinds.TargetKind`.
        name: in reports: the kind, then what it is, such as ``podman crun``.
        rootfs: the image whose files it has; ``None`` if it has no image's programs.
        details: for its facts: versions and settings, as read back.
    """

    kind: str
    name: str
    rootfs: Rootfs | None = None
    details: Mapping[str, str] = {}

    def program(self, name: str) -> Program:
        """A program of the image; see `pytest_vperf.targets.base.Target.program`."""
        if self.rootfs is None:
            raise Unavailable(f"{self.name} has no image's programs", target=self.name)
        with named(self.name):
            return programs_of(self.rootfs).find(name)

    def put(self, source: Path, destination: str) -> None:
        """Copy a file to an absolute path in the target, keeping its permission bits."""
        self._require_absolute(destination)
        mode = f"{source.stat().st_mode & 0o7777:o}"
        write = ["sh", "-c", _WRITE, "sh", destination, mode]
        done = self.run(write, input=source.read_bytes(), timeout=_LONGEST, check=False)
        self._require_copied(done, destination)

    def get(self, source: str, destination: Path, *, limit: int = MOST_FILE) -> None:
        """Copy a file from an absolute path in the target; see `pytest_vperf.targets.base.Target.get`."""
        self._require_absolute(source)
        with received(destination, self.name) as draft:
            size = 0
            while True:
                words = ["sh", "-c", _READ, "sh", source, str(size + 1), str(_PIECE)]
                done = self.run(words, timeout=_LONGEST, check=False, max_output=2 * _PIECE)
                self._require_copied(done, source)
                size += len(done.stdout)
                if size > limit:
                    raise too_large(source, limit, self.name)
                draft.file.write(done.stdout)
                if len(done.stdout) < _PIECE:
                    return

    def _require_absolute(self, path: str) -> None:
        if not os.path.isabs(path):  # noqa: PTH117 - a path in the target
            raise TargetError(f"{path} is not an absolute path", target=self.name)

    def _require_copied(self, done: Completed, path: str) -> None:
        if done.returncode:
            said = done.stderr.decode("utf-8", "replace").strip()
            raise TargetError(f"{path} on {self.name}: {said}", target=self.name)

    def facts(self) -> Facts:
        """Its details, and its image."""
        found = dict(self.details)
        if self.rootfs is not None:
            found |= {"rootfs": self.rootfs.name, "rootfs_sha256": self.rootfs.sha256}
        return Facts(self.kind, self.name, found)

    def usage(self) -> Usage:
        """What it has used of the host; unknown unless a subclass knows.

        Raises:
            Unavailable: always.
        """
        raise Unavailable(f"what {self.name} uses of the host is unknown", target=self.name)
