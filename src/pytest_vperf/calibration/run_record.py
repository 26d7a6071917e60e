"""The record of one run of a calibration, checked: its folder is the user's, and may be older than this version."""

from __future__ import annotations

import json
from datetime import datetime
from typing import TYPE_CHECKING, Annotated, Any, TypeVar

from pydantic import AfterValidator, BaseModel, ConfigDict, ValidationError

from pytest_vperf.claims.problem import key_path, shown
from pytest_vperf.results import reading
from pytest_vperf.results.run import FORMAT

if TYPE_CHECKING:
    from pathlib import Path


class RunRecordProblem(Exception):
    """A file is no record of a run that limits can be made from; the text says why, without the file's name."""


def _moment(text: str) -> str:
    if datetime.fromisoformat(text).tzinfo is None:
        raise ValueError("a time without its zone")
    return text


class _Part(BaseModel):
    """What is read of a record; it has many more keys (`docs/results.md`)."""

    model_config = ConfigDict(strict=True, allow_inf_nan=False, extra="ignore")


class _Session(_Part):
    window_s: float
    steal: float = 0.0
    throttled: dict[str, int] = {}


class _Noise(_Part):
    sessions: list[_Session]


class _Claim(_Part):
    name: str
    nodeid: str
    verdict: str
    reason: str
    criterion: str
    unit: str
    samples: list[float]
    budget_s: float
    noise: _Noise


class _Run(_Part):
    format: int
    started: Annotated[str, AfterValidator(_moment)]
    fingerprint: dict[str, str] | None
    claims: list[_Claim]


_AnyPart = TypeVar("_AnyPart", bound=_Part)


def read(path: Path) -> dict[str, Any]:
    """What limits are made from, of the record in a file: a run of many claims has megabytes more.

    Raises:
        RunRecordProblem: it cannot be read, is cut off, or says what no record of this version can.
    """
    try:
        found = reading.read(path, _check, lambda number, text: _of_claim(text, number))
    except reading.RecordProblem as error:
        raise RunRecordProblem(f"it {error}") from None
    if found.note:
        raise RunRecordProblem("its run did not come to its end")
    head = {**found.head, "claims": found.head.get("claims", [])}
    run = _checked(_Run, json.dumps(head, ensure_ascii=False).encode("utf-8", "replace"))
    claims = [claim.model_dump(exclude_unset=True) for claim in found.claims or ()]
    return {**run.model_dump(exclude_unset=True), "claims": claims}


def _check(head: dict[str, Any]) -> None:
    if head.get("format") != FORMAT:
        raise RunRecordProblem(
            f"it has format {shown(head.get('format'))}, and this vperf reads {FORMAT}"
        )


def _of_claim(text: bytes, number: int) -> _Claim:
    return _checked(_Claim, text, f"claims.{number}.")


def _checked(part: type[_AnyPart], data: bytes, where: str = "") -> _AnyPart:
    try:
        return part.model_validate_json(data)
    except ValidationError as error:
        first = error.errors(include_url=False, include_input=False)[0]
        if first["type"] == "json_invalid":
            raise RunRecordProblem(f"it is not JSON: {where}{first['msg']}") from None
        raise RunRecordProblem(f"{where}{key_path(first['loc']) or 'it'}: {first['msg']}") from None
