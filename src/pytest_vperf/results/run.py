"""The record of a run: its claims in the order they ended, and the file they are kept in."""

from __future__ import annotations

import json
import os
import tempfile
from dataclasses import dataclass, field
from datetime import datetime, timezone
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from pytest_vperf.results.filling import FillingRecord
    from pytest_vperf.results.record import ClaimRecord

#: Raised with every change that a reader of the file must know of.
FORMAT = 1


def now() -> str:
    """The time, in UTC, as ISO 8601 has it, to the second."""
    return datetime.now(timezone.utc).isoformat(timespec="seconds")


@dataclass
class RunRecord:
    """Everything one pytest run measured.

    Attributes:
        path: the file that is rewritten after every claim; ``None`` keeps the record in memory only.
        profile: what `Selection.describe` and the header say of the hardware profile; filled when it is chosen.
        fingerprint: what the machine is; filled likewise.
        claims: in the order they ended.
        fillings: of hosts, in the order they ended.
    """

    path: Path | None = None
    started: str = field(default_factory=now)
    profile: Mapping[str, Any] | None = None
    fingerprint: Mapping[str, Any] | None = None
    claims: list[ClaimRecord] = field(default_factory=list)
    fillings: list[FillingRecord] = field(default_factory=list)

    def add(self, record: ClaimRecord) -> None:
        """Take a claim's record, and write the file at once: the next claim may end the process."""
        self.extend([record])

    def extend(self, records: Iterable[ClaimRecord]) -> None:
        """Take several records, and write the file once."""
        self.claims.extend(records)
        self.write()

    def document(self) -> dict[str, Any]:
        """The run as plain data."""
        from pytest_vperf import __version__

        return {
            "format": FORMAT,
            "vperf": __version__,
            "started": self.started,
            "profile": self.profile,
            "fingerprint": self.fingerprint,
            "claims": self.claims,
            "fillings": self.fillings,
        }

    def write(self) -> None:
        """Write the file, whole or not at all.

        Raises:
            OSError: the file cannot be written; an older one is as it was.
            ValueError: a number is not finite, which JSON has no word for.
        """
        if self.path is None:
            return
        text = json.dumps(self.document(), allow_nan=False, ensure_ascii=False, indent=1)
        write_whole(self.path, text + "\n")


def write_whole(path: Path, text: str) -> None:
    """Replace a file's content in one step, so that no reader and no crash sees half of it.

    Raises:
        OSError: the file cannot be written.
    """
    goal = path.resolve()  # a link stays a link
    descriptor, draft = tempfile.mkstemp(prefix=f".{goal.name}-", dir=goal.parent)
    try:
        # Half a surrogate pair, which UTF-8 has no word for, becomes \udXXX: that is its escape in JSON too.
        with os.fdopen(descriptor, "w", encoding="utf-8", errors="backslashreplace") as stream:
            stream.write(text)
        mode = goal.stat().st_mode & 0o777 if goal.exists() else 0o666 & ~_umask()
        Path(draft).chmod(mode)
        Path(draft).replace(goal)
    except BaseException:
        Path(draft).unlink(missing_ok=True)
        raise


def _umask() -> int:
    # The umask can only be read by setting it.
    mask = os.umask(0o077)
    os.umask(mask)
    return mask
