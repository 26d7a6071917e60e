"""The threshold file of a calibration, ``NAME.calibrated.yaml``; people write in ``NAME.yaml`` beside it."""

from __future__ import annotations

import os
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, Any

import yaml

from pytest_vperf.machine.whole_file import write_whole
from pytest_vperf.thresholds.profile import ThresholdError, load_profile
from pytest_vperf.thresholds.reader import read_yaml

if TYPE_CHECKING:
    from collections.abc import Mapping

_HEAD = """\
# Limits of one machine, written by `vperf calibrate`, which will write them again: write your own in {name}.yaml.
"""


class FileProblem(Exception):
    """A file that cannot be written as it should be; it is as it was."""


def write(path: Path, hardware: Mapping[str, Any], claims: Mapping[str, Mapping[str, Any]]) -> None:
    """Set the limits of claims, whole or not at all; the limits of other claims stay.

    Args:
        path: the file; made where there is none.
        hardware: name and match of a new file.
        claims: criterion and source by the claims' names, as the file has them.

    Raises:
        FileProblem: the file that is there cannot be read, or what came out could not be.
        OSError: the file cannot be written.
    """
    try:
        before: dict[str, Any] = {}
        if path.exists():
            load_profile(path)  # what it refuses cannot be added to
            before = read_yaml(path, str(path)).data
        data = {
            "hardware": dict(before.get("hardware", hardware)),
            "claims": {**before.get("claims", {}), **claims},
        }
        text = _HEAD.format(name=data["hardware"]["name"]) + _dumped(data)
        with tempfile.TemporaryDirectory(prefix="vperf-calibrate-") as name:
            draft = Path(name) / path.name
            draft.write_text(text, "utf-8")
            _check(draft)
    except ThresholdError as error:
        raise FileProblem(str(error)) from None
    path.parent.mkdir(parents=True, exist_ok=True)
    write_whole(path, text)


def check(path: Path) -> None:
    """Look, before anything is measured, whether a file can be written at all.

    Raises:
        FileProblem: it is a link that leads nowhere, or its folder cannot be written.
    """
    if path.is_symlink() and not path.exists():
        raise FileProblem("it is a link that leads nowhere")
    goal = path.resolve()  # a link stays a link
    folder = next(each for each in goal.parents if each.exists())
    if not os.access(folder, os.W_OK | os.X_OK):
        raise FileProblem(f"the folder {folder} cannot be written")


def _check(draft: Path) -> None:
    try:
        load_profile(draft)
    except ThresholdError as error:
        text = str(error).replace(str(draft), draft.name)
        raise FileProblem(f"it would not be right: {text}") from None


def _dumped(data: Mapping[str, Any]) -> str:
    """YAML with the innermost lists and mappings on one line each."""
    return yaml.safe_dump(
        data, default_flow_style=None, sort_keys=False, allow_unicode=True, width=10_000
    )
