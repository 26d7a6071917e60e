"""Records of earlier runs, from files that may be broken, or something else altogether."""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from pydantic import BaseModel, ValidationError

from pytest_vperf.claims.problem import key_path, shown
from pytest_vperf.claims_table.shape import FORMAT, ClaimPart, Kept, RunPart
from pytest_vperf.results import reading

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence
    from pathlib import Path
    from typing import TypeVar

    _Part = TypeVar("_Part", bound=BaseModel)

_PROBLEMS_SHOWN = 3
#: Of all claims of a file.
_MOST_TARGETS = 200_000


class RecordError(Exception):
    """A file is no record that can be read; the text names it, and says what is wrong."""


class NoRecord(RecordError):
    """A file is sound JSON, or no JSON, and something else than a record of vperf's."""


@dataclass
class Read:
    """What one file has.

    Attributes:
        runs: in its order.
        note: what is to be said of it although it is sound; else empty.
    """

    runs: list[RunPart]
    note: str = ""


def read(path: Path) -> Read:
    """The runs of a file: one of ``--claims-json`` or its journal, or those that ``--keep`` wrote.

    Raises:
        RecordError: it cannot be read, is cut off, or says what no record can; ``NoRecord`` where it never was one.
    """

    def check(head: dict[str, Any]) -> None:
        if "vperf" not in head or not {"claims", "runs"} & head.keys():
            raise NoRecord(f"{path}: is not a record of `pytest --claims-json`")
        if head.get("format") != FORMAT or isinstance(head["format"], bool):
            raise RecordError(
                f"{path}: has format {shown(head.get('format'))}, and this vperf reads {FORMAT}"
            )

    targets = 0

    def claim(number: int, text: bytes) -> ClaimPart:
        nonlocal targets
        part = _checked(ClaimPart, text, path, f"claims.{number}.")
        targets += len(part.targets) + len(part.hardware.mismatches)
        if targets > _MOST_TARGETS:
            raise RecordError(f"{path}: has more than {_MOST_TARGETS} targets; no record has")
        return part

    try:
        found = reading.read(path, check, claim)
    except reading.ForeignFile as error:
        raise NoRecord(f"{path}: {error}") from None
    except reading.RecordProblem as error:
        raise RecordError(f"{path}: {error}") from None
    if found.claims is None:
        kept = "runs" in found.head
        data = json.dumps(found.head, ensure_ascii=False).encode("utf-8", "replace")
        return Read(_checked(Kept, data, path).runs if kept else [_checked(RunPart, data, path)])
    head = {**found.head, "claims": []}
    run = _checked(RunPart, json.dumps(head, ensure_ascii=False).encode("utf-8", "replace"), path)
    note = f"{path}: {found.note}" if found.note else ""
    return Read([run.model_copy(update={"claims": found.claims})], note)


@dataclass
class Found:
    """What files and folders have.

    Attributes:
        runs: of all sound records.
        wrong: what is wrong with files that were named; a line for each, with its name.
        damaged: likewise of files in folders.
        left_out: likewise of those in folders that are no records at all.
        notes: what is to be said of sound ones.
    """

    runs: list[RunPart] = field(default_factory=list)
    wrong: list[str] = field(default_factory=list)
    damaged: list[str] = field(default_factory=list)
    left_out: list[str] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)


def read_all(paths: Iterable[Path]) -> Found:
    """The runs of files, and of all ``*.json`` in folders."""
    found = Found()
    for path in paths:
        inside = path.is_dir()
        for file in sorted(path.glob("*.json")) if inside else [path]:
            try:
                one = read(file)
                found.runs += one.runs
                found.notes += [one.note] if one.note else []
            except NoRecord as error:
                (found.left_out if inside else found.wrong).append(str(error))
            except RecordError as error:
                (found.damaged if inside else found.wrong).append(str(error))
    return found


def _checked(part: type[_Part], data: bytes, path: Path, where: str = "") -> _Part:
    try:
        return part.model_validate_json(data)
    except ValidationError as error:
        problems = error.errors(include_url=False, include_input=False)
        if problems[0]["type"] == "json_invalid":
            raise RecordError(f"{path}: is not JSON: {where}{problems[0]['msg']}") from None
        raise RecordError(f"{path}: {_described(problems, where)}") from None


def _described(problems: Sequence[Any], where: str) -> str:
    told = [f"{where}{key_path(each['loc']) or 'JSON'}: {each['msg']}" for each in problems]
    more = f"; … {len(told) - _PROBLEMS_SHOWN} more" if len(told) > _PROBLEMS_SHOWN else ""
    return "; ".join(told[:_PROBLEMS_SHOWN]) + more
