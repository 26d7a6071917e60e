"""The rows of a table of published claims, and the claims that belong to each."""

from __future__ import annotations

from dataclasses import dataclass
from fnmatch import fnmatchcase
from typing import TYPE_CHECKING

from pytest_vperf.thresholds.reader import read_yaml
from pytest_vperf.thresholds.text_file import Problem, ThresholdError

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence
    from pathlib import Path

_KEYS = {"claim", "names"}


@dataclass(frozen=True)
class Row:
    """One row of the table.

    Attributes:
        name: such as ``S1``.
        claim: the claim in words.
        names: the names of its claims; ``*`` matches any text.
    """

    name: str
    claim: str
    names: tuple[str, ...]

    def has(self, claim: str) -> bool:
        """Whether a claim belongs to it; a ``*`` in a threshold file's name is taken literally."""
        return any(fnmatchcase(claim, name) for name in self.names)


def read_rows(path: Path) -> list[Row]:
    """Read the rows of a file: ``S1: {claim: …, names: [startup.pod.*]}`` for each.

    Raises:
        ThresholdError: the file cannot be read or is invalid; one line for each problem.
    """
    source = read_yaml(path, str(path))
    problems = list(source.problems)
    rows: list[Row] = []
    if not isinstance(source.data, dict) or not source.data:
        problems.append(Problem((), "a file of rows is a mapping, NAME: {claim: …, names: […]}"))
    else:
        for name, part in source.data.items():
            if wrong := _wrong(part):
                problems.append(Problem((name,), wrong))
            else:
                rows.append(Row(str(name), part["claim"], tuple(part["names"])))
    if problems:
        raise ThresholdError(source.lines(problems))
    return rows


def misplaced(rows: Sequence[Row], names: Iterable[str]) -> list[str]:
    """Mismatches of rows and claims: a claim in several rows or in none, a row without claims."""
    names = list(dict.fromkeys(names))
    wrong = []
    for name in names:
        homes = [row.name for row in rows if row.has(name)]
        if len(homes) != 1:
            wrong.append(f"{name} is in {' and '.join(homes) or 'no row'}")
    wrong += [f"{row.name} has no claim" for row in rows if not any(map(row.has, names))]
    return wrong


def _wrong(part: object) -> str:
    if not isinstance(part, dict) or part.keys() != _KEYS:
        return "a row has the keys claim and names"
    if not isinstance(part["claim"], str) or not part["claim"].strip():
        return "claim is a text"
    names = part["names"]
    if not isinstance(names, list) or not names or not all(isinstance(each, str) for each in names):
        return "names is a list of names of claims"
    return ""
