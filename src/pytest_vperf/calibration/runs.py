"""The runs of a calibration: pytest several times, each with a record of its own, kept in a folder."""

from __future__ import annotations

import json
import sys
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from pytest_vperf.calibrate_plugin import write_request
from pytest_vperf.pytest_process import NOTHING_COLLECTED, RAN, run_pytest
from pytest_vperf.results.run import write_whole

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

_PLUGIN = "pytest_vperf.calibrate_plugin"
_DONE = "run-{}.json"
_UNFINISHED = "run-{}.unfinished.json"
_ASKED = "calibration.json"


class RunsProblem(Exception):
    """The runs cannot be made, or those of the folder not be gone on with."""


@dataclass(frozen=True)
class Runs:
    """The runs of one calibration.

    Attributes:
        folder: where their records are kept.
        profile: the name of the profile.
        words: for pytest.
    """

    folder: Path
    profile: str
    words: Sequence[str]

    def begin(self) -> None:
        """Make the folder, or go on with what is in it.

        Raises:
            RunsProblem: its records are of another profile or of other tests, or it cannot be written.
        """
        asked = {"profile": self.profile, "words": list(self.words)}
        place = self.folder / _ASKED
        try:
            if place.exists():
                known = json.loads(place.read_text("utf-8"))
                if known != asked:
                    words = " ".join(["pytest", *known["words"]])
                    raise RunsProblem(
                        f"{self.folder} has the runs of `{words}` for --hw={known['profile']}: "
                        "give the same, or another folder"
                    )
                return
            self.folder.mkdir(parents=True, exist_ok=True)
            if any(self.folder.iterdir()):
                raise RunsProblem(f"{self.folder} has other files in it: name an empty folder")
            write_whole(place, json.dumps(asked) + "\n")
        except (OSError, ValueError, KeyError) as error:
            raise RunsProblem(f"{self.folder} cannot be used: {error}") from None

    def collect(self) -> None:
        """Have pytest collect the tests, which finds every wrong option and file before anything is measured.

        Raises:
            RunsProblem: it ended otherwise than well; it has said why.
            KeyboardInterrupt: it was interrupted.
        """
        self._pytest(["--collect-only", "-q", "-q"])

    def documents(self) -> list[dict[str, Any]]:
        """The records of the runs that came to their end.

        Raises:
            RunsProblem: one cannot be read.
        """
        found: list[dict[str, Any]] = []
        while (path := self.path(len(found) + 1)).exists():
            try:
                found.append(json.loads(path.read_text("utf-8")))
            except (OSError, ValueError) as error:
                raise RunsProblem(f"{path} cannot be read: {error}") from None
        return found

    def path(self, number: int) -> Path:
        """Where the record of a run is."""
        return self.folder / _DONE.format(number)

    def measure(self, number: int) -> None:
        """Make a run. Its record has its name when it has come to its end, and not before.

        Raises:
            RunsProblem: pytest ended otherwise than after the tests; it has said why.
            KeyboardInterrupt: it was interrupted; what it measured is in an unfinished record, which does not count.
        """
        unfinished = self.folder / _UNFINISHED.format(number)
        self._pytest([f"--claims-json={unfinished}", "--claims-advisory", "-q"])
        unfinished.rename(self.path(number))

    def _pytest(self, words: Sequence[str]) -> None:
        request = write_request(self.folder, self.profile)
        sys.stdout.flush()
        status, interrupted = run_pytest(
            [
                *("-p", _PLUGIN, f"--calibrate-request={request}"),
                *(*self.words, *words, f"--hw={self.profile}"),
            ]
        )
        if interrupted:
            raise KeyboardInterrupt
        if status == NOTHING_COLLECTED:
            raise RunsProblem("pytest found no tests")
        if status not in RAN:
            raise RunsProblem(f"pytest ended with status {status}, see above")
