"""``vperf calibrate``: a profile of this machine, from several runs of its tests.

Each run is a pytest process of its own, with the plug-in `pytest_vperf.commands.calibrate.plugin`. Runs of another
machine are refused: limits from two machines would fit neither.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from datetime import datetime, timezone
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pytest_vperf import __version__
from pytest_vperf.commands.calibrate import runs as quiet
from pytest_vperf.commands.calibrate.limits import Circumstance, calibrated, gather, print_limits
from pytest_vperf.commands.calibrate.plugin import read_project
from pytest_vperf.commands.calibrate.profile_file import FileProblem, check, write
from pytest_vperf.commands.calibrate.runs import Runs, RunsProblem
from pytest_vperf.commands.calibrate.survey import why_left_alone
from pytest_vperf.machine import cache, fingerprint
from pytest_vperf.machine.fingerprint import UNKNOWN
from pytest_vperf.quantity import Quantity, QuantityError, format_number
from pytest_vperf.reporting.console import say, tell
from pytest_vperf.thresholds.consistency import CALIBRATED
from pytest_vperf.thresholds.profile import (
    ThresholdError,
    load_profiles,
    shipped_folder,
    shown_path,
)

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from pytest_vperf.commands.calibrate.plugin import Project
    from pytest_vperf.machine.fingerprint import Fingerprint
    from pytest_vperf.thresholds.profile import HardwareProfile


#: The memory that Linux reports differs a little from kernel to kernel.
MEMORY_TOLERANCE = 0.05


def hardware(name: str, machine: Fingerprint) -> dict[str, Any]:
    """The ``hardware`` of a new threshold file: the name, and the match of a machine, without its kernel, since the
    limits are meant for new kernels too.
    """
    match: dict[str, Any] = {}
    if machine.cpu_model != UNKNOWN:
        match["cpu_model"] = machine.cpu_model
    if machine.logical_cpus is not None:
        match["logical_cpus"] = machine.logical_cpus
    if machine.memory is not None:
        low, high = (
            format_number(round(machine.memory.value * factor, 1))
            for factor in (1 - MEMORY_TOLERANCE, 1 + MEMORY_TOLERANCE)
        )
        match["memory"] = f"{low} GiB .. {high} GiB"
    for key in ("hypervisor", "architecture"):
        value: str = getattr(machine, key)
        if value != UNKNOWN:
            match[key] = value
    return {"name": name, "match": match}


def differences(document: Mapping[str, Any], machine: Fingerprint) -> str:
    """How the machine differs from the one in a run's record; empty if it does not."""
    then = document["fingerprint"] or {}
    now = machine.as_dict()
    return "; ".join(
        f"{key} was {then.get(key)!r}, is now {value!r}"
        for key, value in now.items()
        if then.get(key) != value
        and not (key == "memory" and _is_that_memory(then.get(key, ""), machine))
    )


def _is_that_memory(then: str, machine: Fingerprint) -> bool:
    """Whether the memory is the same, apart from what a kernel reserves, which varies from boot to boot."""
    try:
        before = Quantity.parse(then).to("GiB").value
    except QuantityError:
        return False
    return machine.memory is not None and math.isclose(
        before, machine.memory.value, rel_tol=MEMORY_TOLERANCE
    )


DONE, INCOMPLETE, MISUSED = 0, 1, 2


class Misused(Exception):
    """The options are invalid for this machine or project; no limit was made."""


class NotQuiet(Exception):
    """The machine is too noisy for a limit."""


@dataclass(frozen=True)
class Options:
    """The options of the command.

    Attributes:
        profile: the name of the profile.
        runs: the number of runs, including those already in the folder.
        confidence: the probability that the next runs are within the limits.
        next_runs: the number of next runs that this covers.
        apart: least number of seconds between the starts of two runs.
        noisy: whether to accept a noisy machine.
        records: the folder of the runs' records; ``None`` makes one in the cache.
        words: arguments for pytest.
    """

    profile: str
    runs: int
    confidence: float
    next_runs: int
    apart: float
    noisy: bool
    records: Path | None
    words: Sequence[str]


def run(options: Options) -> int:
    """Measure, write the file, print the table, and return the exit status.

    Raises:
        KeyboardInterrupt: it was interrupted; the file is unchanged, and the place of the records was printed.
    """
    runs = Runs(options.records or _new_folder(options.profile), options.profile, options.words)
    machine = fingerprint.read()
    try:
        noise_now = _noise_before(options, runs, machine)
        runs.begin()
        path = _place(options, runs, machine)
        noise = _measure(options, runs, machine, noise_now)
        return _write(options, runs, path, machine, noise)
    except (Misused, RunsProblem) as error:
        _say(str(error))
        return MISUSED
    except NotQuiet as error:
        _say(str(error))
        return INCOMPLETE
    except KeyboardInterrupt:
        done = runs.done()
        _say(f"interrupted after {done} of {options.runs} runs; no threshold file was changed")
        if done:
            _say(f"to go on, repeat the command with --records={runs.folder}")
        raise


def _new_folder(profile: str) -> Path:
    stamp = datetime.now().astimezone().strftime("%Y%m%d-%H%M%S")
    return cache.root() / "calibrate" / f"{profile}-{stamp}"


def _noise_before(options: Options, runs: Runs, machine: Fingerprint) -> list[str]:
    """What makes the machine noisy, if that is allowed; empty if no run is missing.

    Raises:
        Misused: the machine is emulated.
        NotQuiet: it is noisy.
    """
    if machine.emulated:
        raise Misused(
            "this machine is emulated: its times say nothing, and no profile ever fits it"
        )
    if all(runs.path(number).exists() for number in range(1, options.runs + 1)):
        return []  # current noise did not disturb them
    noise = quiet.noise_at_start()
    if noise and not options.noisy:
        raise NotQuiet(
            f"this machine is noisy: {', '.join(noise)}. A limit measured now would hold only as long as that lasts. "
            "`vperf doctor --tune` says what helps; --noisy calibrates anyway, and the file says so"
        )
    return noise


def _place(options: Options, runs: Runs, machine: Fingerprint) -> Path:
    """The file to write, after all checks that are possible before measuring.

    Raises:
        Misused: the file cannot be written, or must not be.
        RunsProblem: pytest refuses the options, the tests or a threshold file.
    """
    runs.collect()
    project = read_project(runs.folder)
    if project is None:
        raise Misused("no test that was collected asks for a claim")
    if project.on:
        raise Misused(f"targets would be on {project.on}: calibrate on that machine itself")
    path = _file(options.profile, project)
    try:
        profile = load_profiles([path.parent]).get(options.profile)
    except ThresholdError as error:
        raise Misused(str(error)) from None
    if profile is not None and (differs := profile.match.mismatches(machine)):
        raise Misused(
            f"{shown_path(profile.path)} is for another machine: {'; '.join(differs)}. Give this one a profile of "
            "its own, with another --hw=NAME"
        )
    try:
        check(path)
    except FileProblem as error:
        raise Misused(f"{shown_path(path)} could not be written: {error}") from None
    return path


def _file(profile: str, project: Project) -> Path:
    """The profile's calibrated file: beside the project's own files of the profile, else in its first folder.

    Raises:
        Misused: the profile came with pytest-vperf.
    """
    name, written = f"{profile}.yaml", f"{profile}{CALIBRATED}.yaml"
    folders = [Path(folder) for folder in project.folders]
    shipped = shipped_folder()
    own = [folder for folder in folders if shipped is None or folder.resolve() != shipped.resolve()]
    mine = [each for each in own if any((each / file).exists() for file in (name, written))]
    if not mine and shipped is not None and (shipped / name).exists():
        raise Misused(
            f"{profile} is a published profile that came with pytest-vperf, and is never written: give this "
            f"machine a profile of its own, such as --hw=my-{profile}"
        )
    if not own:
        raise Misused(
            f"{folders[0]} came with pytest-vperf: name a folder with --claims-thresholds"
        )
    return [*mine, *own][0] / written


def _measure(options: Options, runs: Runs, machine: Fingerprint, noise_now: list[str]) -> list[str]:
    """Make the missing runs, and return what disturbed any of them, if that is allowed.

    Raises:
        Misused: an earlier run was made on another machine.
        NotQuiet: a run was disturbed.
    """
    before: list[str] = []
    during: list[str] = []
    last = ""
    for number in range(1, options.runs + 1):
        if not runs.path(number).exists():
            since = _wait(options, runs, last) if last else []
            _say(f"run {number} of {options.runs}")
            runs.measure(number, [*noise_now, *since])
        document = runs.document(number)
        last = document["started"]
        if differs := differences(document, machine):
            raise Misused(f"{runs.path(number)} is from another machine: {differs}")
        noise, found = runs.noise_before(number), quiet.noise_during(document)
        if (noise or found) and not options.noisy:
            was = "was disturbed" if found else "was made on a noisy machine"
            raise NotQuiet(
                f"run {number} {was}: {', '.join([*noise, *found])}. Remove {runs.path(number)} and go on with "
                f"--records={runs.folder}; --noisy takes it as it is, and the file says so"
            )
        before += noise
        during += [f"run {number}: {each}" for each in found]
    return [*dict.fromkeys(before), *during]


def _wait(options: Options, runs: Runs, last: str) -> list[str]:
    """Wait until the next run may begin, and return what makes the machine noisy now, if that is allowed.

    Raises:
        NotQuiet: it has become noisy.
    """
    past = (datetime.now(timezone.utc) - datetime.fromisoformat(last)).total_seconds()
    left = min(options.apart - past, options.apart)  # a clock may have been set back
    if left <= 0:
        return []
    _say(
        f"the next run begins in {left:.0f} s, since a machine's level moves between minutes (--apart)"
    )
    noise = quiet.noise_between(left)
    if noise and not options.noisy:
        raise NotQuiet(
            f"this machine has become noisy: {', '.join(noise)}. Once it is quiet, go on with "
            f"--records={runs.folder}; --noisy calibrates anyway, and the file says so"
        )
    return noise


def _write(
    options: Options, runs: Runs, path: Path, machine: Fingerprint, noise: Sequence[str]
) -> int:
    documents = [runs.document(number) for number in range(1, options.runs + 1)]
    found = gather(documents)
    if not (found.measured or found.refused or found.left_alone):
        _say("no test that ran measures a claim")
        return MISUSED
    limits = []
    own = _profile_now(path.parent, options.profile)
    for each in found.measured:
        # A figure may have been written by hand since the runs began.
        threshold = own.find(each.name) if own else None
        if why := why_left_alone(threshold, options.profile, paired=False):
            found.left_alone[each.name] = why
            continue
        try:
            limits.append(
                calibrated(each, confidence=options.confidence, next_runs=options.next_runs)
            )
        except ValueError as error:
            found.refused[each.name] = str(error)
    under = Circumstance(
        date=max(document["started"] for document in documents)[:10],
        machine=machine.as_dict(),
        noisy="; ".join(noise),
        version=__version__,
        confidence=options.confidence,
        next_runs=options.next_runs,
    )
    status = INCOMPLETE if found.refused else DONE
    problem: Exception | None = None
    if limits:  # before the table, which fails if its reader (head, a pager) has gone
        entries = {each.name: each.entry(under) for each in limits}
        try:
            write(path, hardware(options.profile, machine), entries)
        except (FileProblem, OSError) as error:
            problem = error
    print_limits(documents, found, limits)
    if problem is not None:
        _say(f"{shown_path(path)} is unchanged: {problem}")
        _say(f"once that is fixed, repeat the command with --records={runs.folder}")
        return INCOMPLETE
    written = f"written: {shown_path(path)}" if limits else "nothing to write"
    tell(f"{written}; records in {runs.folder}")
    return status


def _profile_now(folder: Path, name: str) -> HardwareProfile | None:
    try:
        return load_profiles([folder]).get(name)
    except ThresholdError:
        return None  # a figure written by hand has precedence over a calibrated one anyway


def _say(text: str) -> None:
    say("vperf calibrate", text)
