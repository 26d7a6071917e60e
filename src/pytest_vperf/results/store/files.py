"""Runs in files of a folder, one each: ``20261126T091200.123Z-4f1b0c9d2e77.json``.

A file is the record of its run, as ``--claims-json`` writes it, so whatever reads one reads these too. Its first
line, all but the claims, is enough for everything that a store is asked. A file is written under another name first,
so many runs may write at once; and a file that is not a stored run is none of ours.
"""

from __future__ import annotations

import re
from dataclasses import replace
from datetime import datetime, timezone
from typing import TYPE_CHECKING

from pytest_vperf.machine import whole_file
from pytest_vperf.results import reading
from pytest_vperf.results.store.model import HeadPart, StoredRun, StoreProblem

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator
    from pathlib import Path

_FILE = re.compile(r"\d{8}T\d{6}\.\d{3}Z-[0-9a-f]{12}\.json")


class FileStore:
    """A folder of runs; made when the first one is saved.

    Attributes:
        folder: where they are.
    """

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self._damaged: list[str] = []

    @property
    def damaged(self) -> list[str]:
        """Files that are named like runs and are none."""
        return list(self._damaged)

    @property
    def place(self) -> str:
        """The folder."""
        return str(self.folder)

    def check(self) -> None:
        """Make the folder, and see whether a file can be made there."""
        try:
            self.folder.mkdir(parents=True, exist_ok=True)
            with whole_file.place(self.folder / ".probe") as place:
                place.write([b""])
                place.remove(place.name)
        except OSError as error:
            raise StoreProblem(f"{self.folder}: {error.strerror or error}") from None

    def save(self, run: StoredRun, document: Iterable[bytes]) -> None:
        """Write the file."""
        path = self.folder / _name(run)
        try:
            self.folder.mkdir(parents=True, exist_ok=True)
            with whole_file.place(path) as place:
                place.write(document)
        except OSError as error:
            raise StoreProblem(f"{path} cannot be written: {error.strerror or error}") from None

    def runs(
        self, *, name: str = "", commit: str = "", claim: str = "", most: int | None = None
    ) -> list[StoredRun]:
        """Read the first line of each file."""
        self._damaged = []
        found: list[StoredRun] = []
        for file in self._files():
            try:
                head = reading.head_of(file)
                reading.check_format(head)
                run = StoredRun.of(reading.checked(HeadPart, head))
            except (reading.RecordProblem, reading.WrongShape) as error:
                self._damaged.append(f"{file}: {error}")
                continue
            if (name and run.name != name) or not run.commit.startswith(commit):
                continue
            if claim:
                own = tuple(each for each in run.levels if each.claim == claim)
                if not own:
                    continue
                run = replace(run, levels=own)
            found.append(run)
            if len(found) == most:
                break
        return found

    def document(self, mark: str) -> Iterator[bytes]:
        """Read the file."""
        for file in self._files():
            if file.name.endswith(f"-{mark}.json"):
                try:
                    with file.open("rb") as stream:
                        yield from stream
                except OSError as error:
                    raise StoreProblem(f"{file} cannot be read: {error.strerror}") from None
                return
        raise StoreProblem(f"{self.folder} has no run {mark}")

    def _files(self) -> list[Path]:
        """The files of runs, the newest first."""
        try:
            found = [each for each in self.folder.iterdir() if _FILE.fullmatch(each.name)]
        except FileNotFoundError:
            return []
        except OSError as error:
            raise StoreProblem(f"{self.folder} cannot be read: {error.strerror}") from None
        return sorted(found, key=lambda file: file.name, reverse=True)


def _name(run: StoredRun) -> str:
    started = datetime.fromisoformat(run.started).astimezone(timezone.utc)
    return f"{started:%Y%m%dT%H%M%S}.{started.microsecond // 1000:03d}Z-{run.mark}.json"
