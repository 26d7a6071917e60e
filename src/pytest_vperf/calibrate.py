"""``vperf calibrate``: a profile of this machine, from several runs of its tests.

pytest runs the tests, each time in a process of its own, with the plug-in `pytest_vperf.calibrate_plugin`.
"""

from __future__ import annotations

import sys
import time
from dataclasses import dataclass
from datetime import datetime, timezone
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pytest_vperf import __version__
from pytest_vperf.calibrate_plugin import read_project
from pytest_vperf.calibration import quiet
from pytest_vperf.calibration.figures import gather
from pytest_vperf.calibration.limits import Calibrated, Circumstance, calibrated
from pytest_vperf.calibration.profile_file import FileProblem, write
from pytest_vperf.calibration.profile_head import head
from pytest_vperf.calibration.runs import Runs, RunsProblem
from pytest_vperf.claims.recording import SPAN
from pytest_vperf.claims.thresholds import ThresholdError, load_profile, shipped_folder, shown_path
from pytest_vperf.console import print_table
from pytest_vperf.machine import cache, fingerprint

if TYPE_CHECKING:
    from collections.abc import Sequence

    from pytest_vperf.calibrate_plugin import Project
    from pytest_vperf.calibration.figures import Gathered, Measured
    from pytest_vperf.machine.fingerprint import Fingerprint

DONE, INCOMPLETE, MISUSED = 0, 1, 2


class Misused(Exception):
    """What was asked for makes no sense; nothing was measured."""


class NotQuiet(Exception):
    """The machine is too noisy for a limit."""


@dataclass(frozen=True)
class Asked:
    """What the command was asked for.

    Attributes:
        profile: the name of the profile.
        runs: how many, earlier ones of the folder among them.
        confidence: the probability that the next runs are within the limits.
        next_runs: how many next runs that is said of.
        apart: seconds from the beginning of a run to that of the next, at least.
        noisy: whether a noisy machine will do.
        records: the folder of the runs' records; ``None`` makes one in the cache.
        words: for pytest.
    """

    profile: str
    runs: int
    confidence: float
    next_runs: int
    apart: float
    noisy: bool
    records: Path | None
    words: Sequence[str]


def run(asked: Asked) -> int:
    """Measure, write the file, print the table, and return the exit status.

    Raises:
        KeyboardInterrupt: it was interrupted; the file is as it was, and it was said where the records are.
    """
    runs = Runs(asked.records or _new_folder(asked.profile), asked.profile, asked.words)
    machine = fingerprint.read()
    try:
        noise = _noise_before(asked, machine)
        runs.begin()
        path = _place(asked, runs, machine)
        noise += _measure(asked, runs, machine)
        return _write(asked, runs, path, machine, noise)
    except (Misused, RunsProblem) as error:
        _say(str(error))
        return MISUSED
    except NotQuiet as error:
        _say(str(error))
        return INCOMPLETE
    except KeyboardInterrupt:
        done = len(runs.documents())
        _say(f"interrupted after {done} of {asked.runs} runs; no threshold file was changed")
        if done:
            _say(f"to go on, repeat the command with --records={runs.folder}")
        raise


def _new_folder(profile: str) -> Path:
    stamp = datetime.now().astimezone().strftime("%Y%m%d-%H%M%S")
    return cache.root() / "calibrate" / f"{profile}-{stamp}"


def _noise_before(asked: Asked, machine: Fingerprint) -> list[str]:
    """What makes the machine noisy, where that is allowed."""
    if machine.emulated:
        raise Misused(
            "this machine is emulated: its times say nothing, and no profile ever fits it"
        )
    noise = quiet.before()
    if noise and not asked.noisy:
        raise NotQuiet(
            f"this machine is noisy: {', '.join(noise)}. A limit measured now would hold only as long as that lasts. "
            "`vperf doctor --tune` says what helps; --noisy calibrates all the same, and the file says so"
        )
    return noise


def _place(asked: Asked, runs: Runs, machine: Fingerprint) -> Path:
    """The file that is to be written, after everything that can be refused before a measurement.

    Raises:
        Misused: it cannot be written, or should not be.
        RunsProblem: pytest refuses the options, the tests or a threshold file.
    """
    runs.collect()
    project = read_project(runs.folder)
    if project is None:
        raise Misused("no test that was collected asks for a claim")
    if project.on:
        raise Misused(f"targets would be on {project.on}: calibrate on that machine itself")
    path = _file(asked.profile, project)
    if path.exists():
        try:
            differs = load_profile(path).match.mismatches(machine)
        except ThresholdError as error:
            raise Misused(str(error)) from None
        if differs:
            raise Misused(
                f"{shown_path(path)} is for another machine: {'; '.join(differs)}. Give this one a profile of "
                "its own, with another --hw=NAME"
            )
    return path


def _file(profile: str, project: Project) -> Path:
    """The profile's file in the project.

    Raises:
        Misused: the profile came with pytest-vperf.
    """
    name = f"{profile}.yaml"
    folders = [Path(folder) for folder in project.folders]
    shipped = shipped_folder()
    own = [folder for folder in folders if shipped is None or folder.resolve() != shipped.resolve()]
    mine = next((folder / name for folder in own if (folder / name).exists()), None)
    if mine is None and shipped is not None and (shipped / name).exists():
        raise Misused(
            f"{profile} is a published profile that came with pytest-vperf, and is never written: give this "
            f"machine one of its own, such as --hw=my-{profile}"
        )
    if not own:
        raise Misused(
            f"{folders[0]} came with pytest-vperf: name a folder with --claims-thresholds"
        )
    return mine or own[0] / name


def _measure(asked: Asked, runs: Runs, machine: Fingerprint) -> list[str]:
    """Make the runs that are missing; what disturbed them, where that is allowed.

    Raises:
        Misused: an earlier run was made on another machine.
        NotQuiet: a run was disturbed.
    """
    noise: list[str] = []
    for number in range(1, asked.runs + 1):
        if not runs.path(number).exists():
            _wait(runs.documents(), asked.apart)
            _say(f"run {number} of {asked.runs}")
            runs.measure(number)
        document = runs.documents()[number - 1]
        if differs := _differences(document, machine):
            raise Misused(f"{runs.path(number)} is from another machine: {differs}")
        found = quiet.during(document)
        if found and not asked.noisy:
            raise NotQuiet(
                f"run {number} was disturbed: {', '.join(found)}. Remove {runs.path(number)} and go on with "
                f"--records={runs.folder}; --noisy takes it as it is, and the file says so"
            )
        noise += [f"run {number}: {each}" for each in found]
    return noise


def _wait(documents: Sequence[dict[str, Any]], apart: float) -> None:
    """Wait until the next run may begin."""
    if not documents:
        return
    last = datetime.fromisoformat(documents[-1]["started"])
    left = apart - (datetime.now(timezone.utc) - last).total_seconds()
    if left > 0:
        _say(
            f"the next run begins in {left:.0f} s, since a machine's level moves between minutes (--apart)"
        )
        time.sleep(left)


def _differences(document: dict[str, Any], machine: Fingerprint) -> str:
    then = document["fingerprint"] or {}
    now = machine.as_dict()
    return "; ".join(
        f"{key} was {then.get(key)!r}, and is {value!r}"
        for key, value in now.items()
        if then.get(key) != value
    )


def _write(asked: Asked, runs: Runs, path: Path, machine: Fingerprint, noise: Sequence[str]) -> int:
    documents = runs.documents()[: asked.runs]
    found = gather(documents)
    if not (found.measured or found.refused or found.left_alone):
        _say("no test that ran measures a claim")
        return MISUSED
    limits = []
    for each in found.measured:
        try:
            limits.append(calibrated(each, confidence=asked.confidence, next_runs=asked.next_runs))
        except ValueError as error:
            found.refused[each.name] = str(error)
    under = Circumstance(
        date=max(document["started"] for document in documents)[:10],
        machine=machine.as_dict(),
        noisy="; ".join(noise),
        version=__version__,
        confidence=asked.confidence,
        next_runs=asked.next_runs,
    )
    status = INCOMPLETE if found.refused else DONE
    if limits:
        print_table(_COLUMNS, [_row(each) for each in limits])
        print()
    for line in [*_close(documents), *_notes(found, limits)]:
        print(line)
    if not limits:
        print(f"nothing to write; records in {runs.folder}")
        return status
    try:
        write(path, head(asked.profile, machine), {each.name: each.lines(under) for each in limits})
    except (FileProblem, OSError) as error:
        _say(f"{shown_path(path)} is as it was: {error}")
        _say(f"once that is mended, repeat the command with --records={runs.folder}")
        return INCOMPLETE
    print(f"written: {shown_path(path)}; records in {runs.folder}")
    return status


_COLUMNS = ("claim", "figures of the runs", "limit", "margin")
_SIGNS = {"at_most": "≤", "at_least": "≥"}


def _row(each: Calibrated) -> list[str]:
    *numbers, last = [figure.split(" ", 1) for figure in each.figures]
    figures = "  ".join([*(number for number, _ in numbers), " ".join(last)])
    floor = ", the least there is" if each.floored else ""
    return [each.name, figures, f"{_SIGNS[each.side]} {each.limit}", f"{each.margin}{floor}"]


def _notes(found: Gathered, limits: Sequence[Calibrated]) -> list[str]:
    lines = [_constant(each) for each in found.measured if each.constant]
    lines += [f"left alone: {name}: {why}" for name, why in found.left_alone.items()]
    lines += [f"refused: {name}: {why}" for name, why in found.refused.items()]
    return lines


def _close(documents: Sequence[dict[str, Any]]) -> list[str]:
    """That the runs saw one mood of the machine, where they may have."""
    begun = [datetime.fromisoformat(document["started"]) for document in documents]
    least = min((b - a).total_seconds() for a, b in pairwise(begun))
    if least >= SPAN:
        return []
    return [
        f"two runs began only {least:.0f} s apart: the level of a machine moves between minutes, so these limits "
        "may be too near"
    ]


def _constant(each: Measured) -> str:
    value = f"{each.figures[0]:g} {each.unit}"
    return f"{each.name}: all {sum(each.samples)} samples are exactly {value}: is something cached or constant?"


def _say(text: str) -> None:
    print(f"vperf calibrate: {text}", file=sys.stderr, flush=True)
