"""The runs of a calibration: pytest several times, each with a record of its own, kept in a folder.

The machine has to be quiet. A comparison shares the noise between its arms; a limit has no other side. If measured
beside other load it is too wide, or holds only under that load. Records are validated when read: their folder is the
user's, and may come from another version.
"""

from __future__ import annotations

import json
import sys
import time
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from pydantic import Field

from pytest_vperf.commands.calibrate.plugin import forget_project, write_request
from pytest_vperf.commands.pytest_process import NOTHING_COLLECTED, RAN, run_pytest
from pytest_vperf.machine import noise, noise_settings, noise_warnings
from pytest_vperf.machine.whole_file import write_whole
from pytest_vperf.results import reading
from pytest_vperf.results.reading import Moment, Part, checked

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence
    from pathlib import Path


#: With fewer seconds of sampling, the kernel's ticks of 10 ms are too coarse for a share of 1 %.
_LEAST_WINDOW = 5.0


def noise_at_start() -> list[str]:
    """What makes this machine noisy before any measurement, as in the header of a run."""
    return [warning.short for warning in noise_warnings.look()]


def noise_between(seconds: float) -> list[str]:
    """Wait between two runs, and return the noise that others made meanwhile.

    The load average is ignored: it covers a minute, and so the previous run.
    """
    then = noise.snapshot()
    time.sleep(seconds)
    seen = noise.evidence(then, noise.snapshot())
    if seen["window_s"] < _LEAST_WINDOW:
        return []
    seen.pop("load", None)
    # The settings were checked before the first run.
    known = {warning.short for warning in noise_warnings.warnings(noise_settings.settings())}
    found = noise_warnings.warnings(noise_settings.settings(), seen)
    return [each.short for each in found if each.short not in known]


def noise_during(document: Mapping[str, Any]) -> list[str]:
    """What disturbed a run from outside.

    Only noise that the run cannot have made itself: its own programs make load, and wait for processors and disks.

    Args:
        document: the record of the run.
    """
    sessions = [each for claim in document["claims"] for each in claim["noise"]["sessions"]]
    return list(_disturbances(sessions))


def _disturbances(sessions: list[dict[str, Any]]) -> Iterator[str]:
    known = [each for each in sessions if "steal" in each]
    window = sum(each["window_s"] for each in known)
    if window >= _LEAST_WINDOW:
        steal = sum(each["steal"] * each["window_s"] for each in known) / window
        if steal > noise_warnings.STEAL:
            yield f"steal {100 * steal:.2g} % of CPU time while it was measured"
    slowed = sum(sum(each.get("throttled", {}).values()) for each in sessions)
    if slowed:
        yield f"thermal throttling {slowed} times while it was measured"


class RunRecordProblem(Exception):
    """A file is not a record that limits can be made from; the message says why, without the file's name."""


class _Session(Part):
    window_s: float
    steal: float = 0.0
    throttled: dict[str, int] = Field(default_factory=dict)


class _Noise(Part):
    sessions: list[_Session]


class _Claim(Part):
    name: str
    nodeid: str
    verdict: str
    reason: str
    criterion: str
    unit: str
    samples: list[float]
    budget_s: float
    noise: _Noise


class _Run(Part):
    format: int
    started: Moment
    fingerprint: dict[str, str] | None
    claims: list[_Claim]


def read(path: Path) -> dict[str, Any]:
    """Read the parts of a record that limits are made from; the rest may be many megabytes.


    Raises:
        RunRecordProblem: it cannot be read, is truncated, or is invalid in this version.
    """
    try:
        found = reading.read(
            path,
            reading.check_format,
            lambda number, text: checked(_Claim, text, f"claims.{number}."),
        )
        if found.note:
            raise RunRecordProblem("its run did not finish")
        run = checked(_Run, {**found.head, "claims": found.head.get("claims", [])})
    except reading.RecordProblem as error:
        raise RunRecordProblem(f"it {error}") from None
    except reading.WrongShape as error:
        raise RunRecordProblem(str(error)) from None
    claims = [claim.model_dump(exclude_unset=True) for claim in found.claims or ()]
    return {**run.model_dump(exclude_unset=True), "claims": claims}


_PLUGIN = "pytest_vperf.commands.calibrate.plugin"
_DONE = "run-{}.json"
_UNFINISHED = "run-{}.unfinished.json"
_NOISE = "run-{}.noise.json"
_ASKED = "calibration.json"


class RunsProblem(Exception):
    """The runs cannot be made, or those in the folder cannot be continued."""


@dataclass(frozen=True)
class Runs:
    """The runs of one calibration.

    Attributes:
        folder: keeps their records.
        profile: the name of the profile.
        words: arguments for pytest.
    """

    folder: Path
    profile: str
    words: Sequence[str]

    def begin(self) -> None:
        """Create the folder, or continue the runs in it.


        Raises:
            RunsProblem: its records are of another profile or of other tests, or it is not writable.
        """
        options = {"profile": self.profile, "words": list(self.words)}
        place = self.folder / _ASKED
        try:
            if place.exists():
                known = json.loads(place.read_text("utf-8"))
                if known != options:
                    words = " ".join(["pytest", *known["words"]])
                    raise RunsProblem(
                        f"{self.folder} has the runs of `{words}` for --hw={known['profile']}: "
                        "use these options, or another folder"
                    )
                return
            self.folder.mkdir(parents=True, exist_ok=True)
            if any(self.folder.iterdir()):
                raise RunsProblem(f"{self.folder} contains other files: name an empty folder")
            write_whole(place, json.dumps(options) + "\n")
        except (OSError, ValueError) as error:
            raise self._unusable(error) from None
        except (LookupError, TypeError):
            raise RunsProblem(f"{place} was not written by vperf calibrate") from None

    def collect(self) -> None:
        """Have pytest collect the tests, to find invalid options and files before anything is measured.


        Raises:
            RunsProblem: it failed, and has printed why.
            KeyboardInterrupt: it was interrupted.
        """
        try:
            forget_project(self.folder)  # of an earlier command
        except OSError as error:
            raise self._unusable(error) from None
        self._pytest(["--collect-only", "-q", "-q"])

    def done(self) -> int:
        """The number of finished runs, counted from the first without a gap."""
        number = 0
        while self.path(number + 1).exists():
            number += 1
        return number

    def document(self, number: int) -> dict[str, Any]:
        """The record of a finished run.

        Raises:
            RunsProblem: it cannot be read, or limits cannot be made from it.
        """
        try:
            return read(self.path(number))
        except RunRecordProblem as error:
            raise RunsProblem(
                f"{self.path(number)} cannot be used: {error}. Remove it to have that run made again"
            ) from None

    def noise_before(self, number: int) -> list[str]:
        """What made the machine noisy before a run.


        Raises:
            RunsProblem: the file that keeps it cannot be read.
        """
        place = self.folder / _NOISE.format(number)
        try:
            return [str(each) for each in json.loads(place.read_bytes())] if place.exists() else []
        except (OSError, ValueError, TypeError) as error:
            raise RunsProblem(f"{place} cannot be read: {error}") from None

    def path(self, number: int) -> Path:
        """The path of a run's record."""
        return self.folder / _DONE.format(number)

    def measure(self, number: int, noise: Sequence[str]) -> None:
        """Make a run. Its record gets its final name only once the run has finished.

        Args:
            number: counted from 1.
            noise: what makes the machine noisy, if that is allowed; kept beside the record.

        Raises:
            RunsProblem: pytest did not run the tests, and has printed why, or the folder is unusable.
            KeyboardInterrupt: it was interrupted; the measurements are in an unfinished record, which does not count.
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
