"""The file of a fleet: its engine, the interpreter on its machines, and what the engine wants to know."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from pytest_vperf.thresholds.reader import YamlSource, read_yaml
from pytest_vperf.thresholds.text_file import Problem, ThresholdError, nearest, shown

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence
    from pathlib import Path

#: The keys that a file has whatever its engine.
_KEYS = ("engine", "python", "project", "files", "wheels")
#: Whether the project comes with a run, or is on each machine at the same path.
_PROJECT = ("sent", "there")


@dataclass(frozen=True)
class FleetFile:
    """What a file says.

    Attributes:
        path: the file.
        engine: the name of its engine.
        python: the interpreter on every machine, a path or a name.
        sent: whether the project is sent to the machines; else it is there, at the same path.
        files: patterns of the files that are sent, from the project's root; none: all of the project's.
        wheels: patterns of those that are sent, from the file's folder.
        settings: all of its keys, those of the engine included.
    """

    path: Path
    engine: str
    python: str
    sent: bool
    files: Sequence[str]
    wheels: Sequence[str]
    settings: Mapping[str, Any]
    _source: YamlSource

    def wrong(self, message: str, *path: str | int) -> ThresholdError:
        """The error that something in the file is wrong.

        Args:
            message: what, without a full stop.
            path: the keys that lead there.
        """
        return self.all_wrong([Problem(path, message)])

    def all_wrong(self, problems: Iterable[Problem]) -> ThresholdError:
        """The error that several things are; one line for each, in the file's order."""
        return ThresholdError(self._source.lines(problems))


def read_fleet(path: Path, engines: Mapping[str, Sequence[str]]) -> FleetFile:
    """Read a file.

    Args:
        path: the file; messages show it as it is given.
        engines: those that there are, each with its own keys.

    Raises:
        ThresholdError: it cannot be read or is wrong; one line for each problem, with its place.
    """
    source = read_yaml(path, str(path))
    problems = list(source.problems)
    data = source.data
    if not isinstance(data, dict):
        such_as = "engine: ssh, python: /opt/vperf/bin/python, hosts: {h1: type1}"
        problems.append(Problem((), f"the file of a fleet is a mapping such as {such_as}"))
        raise ThresholdError(source.lines(problems))
    name = data.get("engine")
    own = engines.get(name) if isinstance(name, str) else None
    names = ", ".join(engines)
    if name is None:
        problems.append(Problem((), f"the key engine is missing; there are the engines {names}"))
    elif own is None:
        hint = nearest(str(name), engines) or f"; there are {names}"
        problems.append(Problem(("engine",), f"there is no engine {shown(name)}{hint}"))
    else:
        known = (*_KEYS, *own)
        problems += (
            Problem(
                (key,),
                f"unknown key{nearest(str(key), known) or '; there are ' + ', '.join(known)}",
                at_key=True,
            )
            for key in data
            if key not in known
        )
    python = data.get("python", "python3")
    if not isinstance(python, str) or python.startswith("-"):
        problems.append(Problem(("python",), f"{shown(python)} is no path of an interpreter"))
    project = data.get("project", "sent")
    if project not in _PROJECT:
        problems.append(
            Problem(("project",), f"{shown(project)} is neither {' nor '.join(_PROJECT)}")
        )
    for key in ("files", "wheels"):
        given = data.get(key, ["*"])
        if not isinstance(given, list) or not given or not all(_is_pattern(each) for each in given):
            message = f"{key} is a list of paths or patterns such as dist/*.whl"
            problems.append(Problem((key,), message))
        elif key in data and project == "there":
            problems.append(Problem((key,), "nothing is sent, as the project is there"))
    if problems:
        raise ThresholdError(source.lines(problems))
    texts = {key: tuple(data.get(key, ())) for key in ("files", "wheels")}
    return FleetFile(
        path, str(name), python, project == "sent", **texts, settings=data, _source=source
    )


def _is_pattern(given: object) -> bool:
    return isinstance(given, str) and bool(given) and not given.startswith("/")
