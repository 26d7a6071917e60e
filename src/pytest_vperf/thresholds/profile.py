"""Threshold files, ``NAME.yaml``: the thresholds of claims on one kind of hardware, and their sources.

A file with any mistake is refused as a whole, and all its mistakes are listed (design rule 2). A threshold's source
is a document that publishes it, or a calibration. Calibrated limits are in a file of their own,
``NAME.calibrated.yaml``, and count where ``NAME.yaml`` has no figure.
"""

from __future__ import annotations

import functools
import os
import re
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING

import pytest_vperf
from pytest_vperf.thresholds import schema
from pytest_vperf.thresholds.consistency import CALIBRATED, disagreements
from pytest_vperf.thresholds.judge import Setting
from pytest_vperf.thresholds.match import Match
from pytest_vperf.thresholds.reader import YamlSource, parse_yaml, read_yaml
from pytest_vperf.thresholds.schema import JudgePart
from pytest_vperf.thresholds.text_file import ThresholdError, text_of

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from pytest_vperf.quantity import Quantity
    from pytest_vperf.thresholds.criterion import Criterion
    from pytest_vperf.thresholds.text_file import DataPath

__all__ = [
    "Calibration",
    "HardwareProfile",
    "Source",
    "Threshold",
    "ThresholdError",
    "json_schema",
    "load_profile",
    "load_profiles",
    "shipped_folder",
    "threshold_folders",
]


@dataclass(frozen=True)
class Calibration:
    """The runs on one machine that a limit was derived from, with the figures as written in the file.

    Attributes:
        date: of the last run, ISO 8601.
        figures: one per run.
        margin: how far the limit is from them.
        confidence: the probability that the next runs are within the limit.
        next_runs: the number of those runs.
        noisy: what made the machine noisy; empty if it was quiet.
    """

    date: str
    figures: tuple[str, ...]
    margin: str
    confidence: str
    next_runs: int
    noisy: str = ""

    def __str__(self) -> str:
        noisy = f"; on a noisy machine: {self.noisy}" if self.noisy else ""
        return (
            f"calibrated {self.date} by {len(self.figures)} runs ({', '.join(self.figures)}), margin {self.margin}, "
            f"{self.confidence} for the next {self.next_runs} runs{noisy}"
        )


@dataclass(frozen=True)
class Source:
    """The provenance of a threshold.

    Attributes:
        document: the publication; empty if the threshold comes from a calibration.
        project: the one that publishes it about itself; may be empty, like the rest.
        section: the place in the document.
        commit: of the document that was read, or that brought the figures.
        date: of that commit, or of the publication, ISO 8601.
        published: its figures by name.
        written: the same figures, exactly as written in the file.
        also: figures of other metrics published with them, exactly as written in the file.
        rule: how the threshold follows from the published figures.
        procedure: how the figures were measured.
        deviations: in what the test differs from that.
        contested_by: who has measured otherwise.
        calibration: the runs that the threshold was derived from; ``None`` if it was published.
    """

    document: str
    project: str = ""
    section: str = ""
    commit: str = ""
    date: str = ""
    published: Mapping[str, Quantity] = field(default_factory=dict)
    written: Mapping[str, str] = field(default_factory=dict)
    also: Mapping[str, str] = field(default_factory=dict)
    rule: str = ""
    procedure: str = ""
    deviations: str = ""
    contested_by: str = ""
    calibration: Calibration | None = None

    def __str__(self) -> str:
        if self.calibration is not None:
            return str(self.calibration)
        section = f" §{self.section}" if self.section else ""
        figures = ", ".join(f"{name} {text}" for name, text in self.written.items())
        rule = f": {self.rule}" if self.rule else ""
        at = f" at {self.commit}" if self.commit else ""
        when = f"{at}, {self.date}" if self.date else at
        return f"{self.document}{section}{when}{f' ({figures})' if figures else ''}{rule}"


@dataclass(frozen=True)
class Threshold:
    """What a claim is held against.

    Attributes:
        name: the claim's.
        criterion: what it asserts, the figure included.
        summary: the claim as a sentence; may be empty.
        source: where the figure comes from; ``None`` if the file does not say.
        profile: the profile's name.
        location: file and line, e.g. ``thresholds/type1.yaml:12``.
        judge: the file's settings for this claim or for all, see `pytest_vperf.thresholds.judge`.
        needs: the programs without which it cannot be measured.
        emulated: why it is judged on an emulated machine, too; empty if it is not.
    """

    name: str
    criterion: Criterion
    summary: str
    source: Source | None
    profile: str
    location: str
    judge: Mapping[str, Setting] = field(default_factory=dict)
    needs: tuple[str, ...] = ()
    emulated: str = ""

    @property
    def gives_way(self) -> bool:
        """Whether a calibration's limit may count instead: it is from one itself, or nobody knows the figure."""
        if self.source is not None:
            return self.source.calibration is not None
        return bool(self.criterion.reason)


def stands_for(pattern: str, text: str) -> bool:
    """Whether a claim's name in a threshold file, in which ``*`` stands for one word, matches a text."""
    return bool(re.fullmatch(re.escape(pattern).replace(r"\*", r"[^.\s]+"), text))


@dataclass(frozen=True)
class Hidden:
    """A threshold that does not count.

    Attributes:
        threshold: the one that does not.
        by: the one that counts instead.
    """

    threshold: Threshold
    by: Threshold


@dataclass(frozen=True)
class HardwareProfile:
    """One threshold file.

    Attributes:
        name: as in ``--hw=NAME``.
        path: the file.
        summary: the machine in one line; may be empty.
        match: which machines it is for.
        claims: its thresholds by name; a name may have one ``*``, see `find`.
        judge: what the file says of how all its claims are judged.
        hidden: thresholds of files of the same name in later folders that do not count, each with the one that does.
    """

    name: str
    path: Path
    summary: str
    match: Match
    claims: Mapping[str, Threshold]
    judge: Mapping[str, Setting] = field(default_factory=dict)
    hidden: tuple[Hidden, ...] = ()

    def find(self, claim: str) -> Threshold | None:
        """The threshold of a claim, under the claim's own name.

        The exact name takes precedence over one in which ``*`` stands for one word.
        """
        entry = self.entry(claim)
        return None if entry is None else replace(self.claims[entry], name=claim)

    def entry(self, claim: str) -> str | None:
        """The name under which the file lists a claim: its own, or one with ``*``; ``None`` if it does not."""
        if claim in self.claims:
            return claim
        for name in self.claims:
            # Two patterns that match one name were refused when the file was read.
            if "*" in name and stands_for(name, claim):
                return name
        return None

    def over(self, later: HardwareProfile) -> HardwareProfile:
        """This profile with the thresholds of one of the same name in a later folder, for claims that it lacks.

        Where both have one, this one's counts, unless it is from a calibration and the other has a figure. An exact
        name has precedence over one with ``*``, whatever its folder.
        """
        claims, hidden = dict(self.claims), [*self.hidden, *later.hidden]
        for name, other in later.claims.items():
            own = claims.get(name)
            if own is None:
                claims[name] = other
                fits = (key for key in self.claims if "*" in key and stands_for(key, name))
                hidden += (Hidden(self.claims[key], other) for key in fits if "*" not in name)
            elif own.source and own.source.calibration and not other.gives_way:
                claims[name] = other
                hidden.append(Hidden(own, other))
            else:
                hidden.append(Hidden(other, own))
        return replace(self, claims=claims, hidden=tuple(hidden))

    def with_calibrated(self, calibrated: HardwareProfile) -> HardwareProfile:
        """This profile with the limits of a calibration, for claims that it has no figure for.

        What it says of such a claim and of how it is judged stays.
        """
        claims = dict(self.claims)
        for name, limit in calibrated.claims.items():
            own = self.find(name)
            if own is None:
                claims[name] = replace(limit, judge={**self.judge, **limit.judge})
            elif own.gives_way:
                claims[name] = replace(
                    limit, summary=own.summary, judge={**limit.judge, **own.judge}
                )
        return replace(self, claims=claims)


def load_profile(path: Path) -> HardwareProfile:
    """Read a threshold file.

    Raises:
        ThresholdError: it cannot be read or is wrong; one line per problem.
    """
    return _profile(path, read_yaml(path, shown_path(path)))


def parse_profile(path: Path, text: str) -> HardwareProfile:
    """What `load_profile` would make of a file with this text.

    Raises:
        ThresholdError: it is wrong; one line per problem.
    """
    name = shown_path(path)
    return _profile(path, parse_yaml(text_of(text.encode(), name), name))


def _profile(path: Path, source: YamlSource) -> HardwareProfile:
    content, problems = schema.check(source.data)
    problems += disagreements(source.data, path.stem)
    # Do not report a value again that could not even be read.
    unread = {each.path for each in source.problems}
    problems = [
        each
        for each in problems
        if not any(each.path[:size] in unread for size in range(len(each.path) + 1))
    ]
    if content is None or source.problems or problems:
        raise ThresholdError(source.lines([*source.problems, *problems]))
    hardware = content.hardware
    return HardwareProfile(
        name=hardware.name,
        path=path,
        summary=hardware.summary or "",
        match=Match(
            **{name: getattr(hardware.match, name) for name in schema.MatchPart.model_fields}
        ),
        claims={
            name: _threshold(name, part, content, source) for name, part in content.claims.items()
        },
        judge=_judge(content.judge, ("judge",), source),
    )


@functools.cache
def _shipped(path: Path, shown: str) -> HardwareProfile:
    """A shipped file, which stays as it is while we run: it is read once for each way in which it is shown."""
    return load_profile(path)


def load_profiles(folders: Sequence[Path]) -> dict[str, HardwareProfile]:
    """Read all threshold files of some folders; profiles of one name are put together, see `HardwareProfile.over`.

    A folder that does not exist is skipped.

    Raises:
        ThresholdError: a file is wrong, or a folder cannot be read; the message lists the problems of all files.
    """
    profiles: dict[str, HardwareProfile] = {}
    lines: list[str] = []
    shipped = shipped_folder()
    for folder in folders:
        try:
            files = sorted(folder.iterdir())
        except FileNotFoundError:
            continue
        except OSError as error:
            lines.append(f"{shown_path(folder)}: cannot be read: {error.strerror}")
            continue
        here: dict[str, HardwareProfile] = {}
        for path in files:  # NAME.calibrated.yaml comes before NAME.yaml
            if path.suffix == ".yml" and not path.name.startswith("."):
                # It would be ignored silently otherwise.
                lines.append(f"{shown_path(path)}: a threshold file's name ends in .yaml, not .yml")
            name = path.stem.removesuffix(CALIBRATED)
            if path.suffix != ".yaml" or path.name.startswith("."):
                continue
            try:
                loaded = (
                    load_profile(path) if folder != shipped else _shipped(path, shown_path(path))
                )
            except ThresholdError as error:
                lines += str(error).splitlines()
                continue
            calibrated = here.get(name)
            here[name] = loaded.with_calibrated(calibrated) if calibrated else loaded
        for name, profile in here.items():
            profiles[name] = profiles[name].over(profile) if name in profiles else profile
    if lines:
        raise ThresholdError(lines)
    return profiles


def shipped_folder() -> Path | None:
    """The folder of threshold files shipped with the package; ``None`` if it is not installed from a wheel."""
    folder = Path(pytest_vperf.__file__).parent / "thresholds" / "shipped"
    return folder if folder.is_dir() else None


def threshold_folders(own: Sequence[Path]) -> tuple[Path, ...]:
    """The folders of threshold files: the ``own`` ones, which take precedence, and the package's."""
    shipped = shipped_folder()
    return (*own, *([shipped] if shipped else []))


def json_schema() -> dict[str, object]:
    """The format of threshold files as a JSON Schema, draft 2020-12."""
    return schema.json_schema()


def _threshold(
    name: str, part: schema.ClaimPart, whole: schema.FilePart, file: YamlSource
) -> Threshold:
    return Threshold(
        name=name,
        criterion=part.criterion,
        summary=part.summary or "",
        source=_source(part, whole.rule) if part.source else None,
        profile=whole.hardware.name,
        location=f"{file.name}:{file.line(('claims', name))}",
        judge={
            **_judge(whole.judge, ("judge",), file),
            **_judge(part.judge, ("claims", name, "judge"), file),
        },
        needs=tuple(part.needs),
        emulated=part.emulated or "",
    )


def _judge(part: JudgePart | None, path: DataPath, file: YamlSource) -> dict[str, Setting]:
    """The settings of a ``judge`` mapping, each with its line."""
    return {
        key: Setting(value, f"{file.name}:{file.line((*path, key))}")
        for key, value in (part or JudgePart())
        if value is not None
    }


def _source(claim: schema.ClaimPart, rule: str | None) -> Source:
    """Where a claim's threshold comes from; the file's rule applies only to limits that follow from published
    figures."""
    part = claim.source
    assert part is not None
    if (made := part.calibrated) is not None:
        calibration = Calibration(
            date=made.date,
            figures=tuple(figure.text for figure in made.figures),
            margin=made.margin.text,
            confidence=made.confidence.text,
            next_runs=made.next_runs,
            noisy=made.noisy or "",
        )
        return Source(document="", calibration=calibration)
    assert part.document is not None
    makes_it = part.published and (claim.at_most or claim.at_least)
    return Source(
        document=part.document,
        project=part.project or "",
        section=part.section or "",
        commit=part.commit or "",
        date=part.date or "",
        published={name: figure.quantity for name, figure in part.published.items()},
        written={name: figure.text for name, figure in part.published.items()},
        also={name: figure.text for name, figure in part.also.items()},
        rule=part.rule or (rule if rule and makes_it else ""),
        procedure=part.procedure or "",
        deviations=part.deviations or "",
        contested_by=part.contested_by or "",
    )


def shown_path(path: Path) -> str:
    """A path for messages: relative to the working folder if it is inside."""
    try:
        return str(path.absolute().relative_to(Path(os.getcwd())))  # noqa: PTH109
    except (ValueError, OSError):
        return str(path)
