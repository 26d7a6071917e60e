"""The runs of a calibration: pytest several times, each with a record of its own, kept in a folder."""

from __future__ import annotations

import json
import sys
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from pytest_vperf.calibrate_plugin import forget_project, write_request
from pytest_vperf.calibration.run_record import RunRecordProblem, read
from pytest_vperf.machine.whole_file import write_whole
from pytest_vperf.pytest_process import NOTHING_COLLECTED, RAN, run_pytest

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

_PLUGIN = "pytest_vperf.calibrate_plugin"
_DONE = "run-{}.json"
_UNFINISHED = "run-{}.unfinished.json"
_NOISE = "run-{}.noise.json"
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
        except (OSError, ValueError) as error:
            raise self._unusable(error) from None
        except (LookupError, TypeError):
            raise RunsProblem(f"{place} is not what vperf calibrate writes") from None

    def collect(self) -> None:
        """Have pytest collect the tests, which finds every wrong option and file before anything is measured.

        Raises:
            RunsProblem: it ended otherwise than well; it has said why.
            KeyboardInterrupt: it was interrupted.
        """
        try:
            forget_project(self.folder)  # what an earlier command found there
        except OSError as error:
            raise self._unusable(error) from None
        self._pytest(["--collect-only", "-q", "-q"])

    def done(self) -> int:
        """How many runs, from the first on, came to their end."""
        number = 0
        while self.path(number + 1).exists():
            number += 1
        return number

    def document(self, number: int) -> dict[str, Any]:
        """The record of a run that came to its end.

        Raises:
            RunsProblem: it cannot be read, or limits cannot be made from it.
        """
        try:
            return read(self.path(number))
        except RunRecordProblem as error:
            raise RunsProblem(
                f"{self.path(number)} cannot be used: {error}. Remove it, and that run is made again"
            ) from None

    def noise_before(self, number: int) -> list[str]:
        """What made the machine noisy when the command began that made a run.

        Raises:
            RunsProblem: that was kept, and cannot be read.
        """
        place = self.folder / _NOISE.format(number)
        try:
            return [str(each) for each in json.loads(place.read_bytes())] if place.exists() else []
        except (OSError, ValueError, TypeError) as error:
            raise RunsProblem(f"{place} cannot be read: {error}") from None

    def path(self, number: int) -> Path:
        """Where the record of a run is."""
        return self.folder / _DONE.format(number)

    def measure(self, number: int, noise: Sequence[str]) -> None:
        """Make a run. Its record has its name when it has come to its end, and not before.

        Args:
            number: from 1 on.
            noise: what makes the machine noisy, where that is allowed; kept beside the record.

        Raises:
            RunsProblem: pytest ended otherwise than after the tests, which it has said, or the folder is of no use.
            KeyboardInterrupt: it was interrupted; what it measured is in an unfinished record, which does not count.
        """
        unfinished = self.folder / _UNFINISHED.format(number)
        try:
            unfinished.unlink(missing_ok=True)  # of an interrupted run
            write_whole(self.folder / _NOISE.format(number), json.dumps(list(noise)) + "\n")
            self._pytest([f"--claims-json={unfinished}", "--claims-advisory", "-q"])
            if not unfinished.exists():
                raise RunsProblem(
                    f"run {number} left no record: none of its tests asks for a claim"
                )
            unfinished.rename(self.path(number))
        except OSError as error:
            raise self._unusable(error) from None

    def _pytest(self, words: Sequence[str]) -> None:
        try:
            request = write_request(self.folder, self.profile)
        except OSError as error:
            raise self._unusable(error) from None
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

    def _unusable(self, error: Exception) -> RunsProblem:
        return RunsProblem(f"{self.folder} cannot be used: {error}")
