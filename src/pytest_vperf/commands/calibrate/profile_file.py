"""A calibration's threshold file, ``NAME.calibrated.yaml``; hand-written limits go in ``NAME.yaml`` beside it."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any

import yaml

from pytest_vperf.machine.whole_file import write_whole
from pytest_vperf.thresholds.profile import (
    ThresholdError,
    load_profile,
    parse_profile,
    shown_path,
)
from pytest_vperf.thresholds.reader import read_yaml

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

_HEAD = """\
# Limits of one machine, written by `vperf calibrate`, which will write them again: write your own in {name}.yaml.
"""


class FileProblem(Exception):
    """The file cannot be written correctly; it is unchanged."""


def write(path: Path, hardware: Mapping[str, Any], claims: Mapping[str, Mapping[str, Any]]) -> None:
    """Set the limits of claims, all or none; the limits of other claims are kept.

    Args:
        path: the file; created if missing.
        hardware: the name and match for a new file.
        claims: the criterion and source by claim, in the form of the file.

    Raises:
        FileProblem: the existing file or the new content is invalid.
        OSError: the file cannot be written.
    """
    try:
        before: dict[str, Any] = {}
        if path.exists():
            load_profile(path)  # an invalid file must not be extended
            before = read_yaml(path, str(path)).data
        data = {
            "hardware": dict(before.get("hardware", hardware)),
            "claims": {**before.get("claims", {}), **claims},
        }
        text = _HEAD.format(name=data["hardware"]["name"]) + _dumped(data)
        _check(path, text)
    except ThresholdError as error:
        raise FileProblem(str(error)) from None
    path.parent.mkdir(parents=True, exist_ok=True)
    write_whole(path, text)


def check(path: Path) -> None:
    """Check, before anything is measured, that a file can be written.

    Raises:
        FileProblem: it is a broken link, or its folder is not writable.
    """
    if path.is_symlink() and not path.exists():
        raise FileProblem("it is a broken link")
    goal = path.resolve()  # write the link's target, as `write_whole` does
    folder = next(each for each in goal.parents if each.exists())
    if not os.access(folder, os.W_OK | os.X_OK):
        raise FileProblem(f"the folder {folder} is not writable")


def _check(path: Path, text: str) -> None:
    try:
        parse_profile(path, text)
    except ThresholdError as error:
        told = str(error).replace(shown_path(path), path.name)
        raise FileProblem(f"its new content is invalid: {told}") from None


def _dumped(data: Mapping[str, Any]) -> str:
    """YAML with the innermost lists and mappings on one line each."""
    return yaml.safe_dump(
        data, default_flow_style=None, sort_keys=False, allow_unicode=True, width=10_000
    )
