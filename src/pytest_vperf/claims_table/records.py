"""Records of earlier runs, from files that may be broken, or something else altogether."""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from pydantic import BaseModel, ValidationError

from pytest_vperf.claims.problem import ThresholdError, key_path, shown
from pytest_vperf.claims.text_file import read_bytes
from pytest_vperf.claims_table.shape import FORMAT, Kept, RunPart

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence
    from pathlib import Path
    from typing import TypeVar

    _Part = TypeVar("_Part", bound=BaseModel)

#: A run of all claims has some 10 MB, nearly all of it samples.
MAX_BYTES = 256 << 20
_PROBLEMS_SHOWN = 3


class RecordError(Exception):
    """A file is no record that can be read; the text names it, and says what is wrong."""


class NoRecord(RecordError):
    """A file is sound JSON, or no JSON, and something else than a record of vperf's."""


def read(path: Path) -> list[RunPart]:
    """The runs of a file: one of ``--claims-json``, or those that ``--keep`` wrote.

    Raises:
        RecordError: it cannot be read, is cut off, or says what no record can; ``NoRecord`` where it never was one.
    """
    try:
        data = read_bytes(path, str(path), MAX_BYTES, "record")
    except ThresholdError as error:
        raise RecordError(str(error)) from None
    try:
        head: Any = json.loads(data)
    except RecursionError:
        raise NoRecord(f"{path}: is nested too deeply for a record") from None
    except (
        ValueError
    ) as error:  # JSON's own, UTF-8's, and that of a number with thousands of digits
        raise RecordError(f"{path}: is not JSON: {error}") from None
    if not isinstance(head, dict) or "vperf" not in head or not {"claims", "runs"} & head.keys():
        raise NoRecord(f"{path}: is not a record of `pytest --claims-json`")
    if head.get("format") != FORMAT or isinstance(head["format"], bool):
        raise RecordError(
            f"{path}: has format {shown(head.get('format'))}, and this vperf reads {FORMAT}"
        )
    # Half a surrogate pair, which a record may have as an escape, is no text for what checks it.
    data = json.dumps(head, ensure_ascii=False).encode("utf-8", "replace")
    if "runs" in head:
        return _checked(Kept, data, path).runs
    return [_checked(RunPart, data, path)]


@dataclass
class Found:
    """What files and folders have.

    Attributes:
        runs: of all sound records.
        wrong: what is wrong with files that were named; a line for each, with its name.
        damaged: likewise of files in folders.
        left_out: likewise of those in folders that are no records at all.
    """

    runs: list[RunPart] = field(default_factory=list)
    wrong: list[str] = field(default_factory=list)
    damaged: list[str] = field(default_factory=list)
    left_out: list[str] = field(default_factory=list)


def read_all(paths: Iterable[Path]) -> Found:
    """The runs of files, and of all ``*.json`` in folders."""
    found = Found()
    for path in paths:
        inside = path.is_dir()
        for file in sorted(path.glob("*.json")) if inside else [path]:
            try:
                found.runs += read(file)
            except NoRecord as error:
                (found.left_out if inside else found.wrong).append(str(error))
            except RecordError as error:
                (found.damaged if inside else found.wrong).append(str(error))
    return found


def _checked(part: type[_Part], data: bytes, path: Path) -> _Part:
    try:
        return part.model_validate_json(data)
    except ValidationError as error:
        raise RecordError(f"{path}: {_described(error.errors(include_url=False))}") from None


def _described(problems: Sequence[Any]) -> str:
    told = [f"{key_path(each['loc']) or 'JSON'}: {each['msg']}" for each in problems]
    more = f"; … {len(told) - _PROBLEMS_SHOWN} more" if len(told) > _PROBLEMS_SHOWN else ""
    return "; ".join(told[:_PROBLEMS_SHOWN]) + more
