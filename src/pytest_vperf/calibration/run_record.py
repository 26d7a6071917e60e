"""The record of one run of a calibration, checked: its folder is the user's, and may be older than this version."""

from __future__ import annotations

import json
from datetime import datetime
from typing import TYPE_CHECKING, Annotated, Any

from pydantic import AfterValidator, BaseModel, ConfigDict, ValidationError

from pytest_vperf.claims.problem import key_path, shown
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


def read(path: Path) -> dict[str, Any]:
    """What limits are made from, of the record in a file: a run of many claims has megabytes more.

    Raises:
        RunRecordProblem: it cannot be read, is cut off, or says what no record of this version can.
    """
    try:
        found: Any = json.loads(path.read_bytes())
        if isinstance(found, dict) and found.get("format") != FORMAT:
            raise RunRecordProblem(
                f"it has format {shown(found.get('format'))}, and this vperf reads {FORMAT}"
            )
        return _Run.model_validate(found).model_dump(exclude_unset=True)
    except OSError as error:
        raise RunRecordProblem(error.strerror or str(error)) from None
    except ValidationError as error:
        first = error.errors(include_url=False)[0]
        raise RunRecordProblem(f"{key_path(first['loc']) or 'it'}: {first['msg']}") from None
    except RecursionError:
        raise RunRecordProblem("it is nested too deeply for a record") from None
    except ValueError as error:  # JSON's own, and UTF-8's
        raise RunRecordProblem(f"it is not JSON: {error}") from None
