"""The file of a calibration: written whole, and read again before it replaces the old one."""

from __future__ import annotations

import os
import re
import tempfile
from typing import TYPE_CHECKING, Any

import pytest

from pytest_vperf.commands.calibrate.limits import Calibrated, Circumstance
from pytest_vperf.commands.calibrate.profile_file import FileProblem, check, write
from pytest_vperf.thresholds.profile import load_profile

if TYPE_CHECKING:
    from pathlib import Path

UNDER = Circumstance(
    date="2026-11-22",
    machine={"cpu_model": 'a "b" # c: 1', "logical_cpus": "2"},
    noisy="",
    version="0.1.0",
    confidence=0.99,
    next_runs=20,
)
HARDWARE = {"name": "desk", "match": {"logical_cpus": 2, "cpu_model": "yes: 'no' #1"}}


def limit(text: str = "400 ms", name: str = "a.b") -> dict[str, dict[str, Any]]:
    made = Calibrated(
        name, "at_most", text, ("371 ms", "376 ms", "369 ms"), (24, 24, 9), "1 %", "6 %", False
    )
    return {name: made.entry(UNDER)}


WRITTEN = """\
# Limits of one machine, written by `vperf calibrate`, which will write them again: write your own in desk.yaml.
hardware:
  name: desk
  match: {logical_cpus: 2, cpu_model: 'yes: ''no'' #1'}
claims:
  a.b:
    at_most: 400 ms
    source:
      calibrated:
        date: '2026-11-22'
        figures: [371 ms, 376 ms, 369 ms]
        samples: [24, 24, 9]
        spread: 1 %
        margin: 6 %
        confidence: 99 %
        next_runs: 20
        vperf: 0.1.0
        machine: {cpu_model: 'a "b" # c: 1', logical_cpus: '2'}
"""


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "thresholds" / "desk.calibrated.yaml"


def test_a_new_file_is_read_as_it_was_written(path: Path) -> None:
    write(path, HARDWARE, limit())
    assert path.read_text() == WRITTEN
    profile = load_profile(path)
    assert profile.match.cpu_model == "yes: 'no' #1"
    source = profile.claims["a.b"].source
    assert source is not None
    assert source.calibration is not None
    assert source.calibration.figures == ("371 ms", "376 ms", "369 ms")


def test_the_second_calibration_replaces_the_limits_that_it_made_and_no_other(path: Path) -> None:
    write(path, HARDWARE, {**limit(), **limit(name="e.f")})
    first = path.read_text()
    write(path, HARDWARE, limit("390 ms"))
    assert path.read_text() == first.replace("400 ms", "390 ms", 1)
    write(path, HARDWARE, limit("400 ms"))
    assert path.read_text() == first


def test_an_unwritable_folder_is_found_before_the_runs(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    check(path)
    path.parent.mkdir()
    monkeypatch.setattr(os, "access", lambda path, mode: False)
    with pytest.raises(FileProblem, match=f"the folder {path.parent} is not writable"):
        check(path)


def test_nothing_is_written_elsewhere_to_check_it(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tempfile, "tempdir", str(path.parent / "none"))
    write(path, HARDWARE, limit())
    assert list(load_profile(path).claims) == ["a.b"]


def test_a_link_stays_a_link(path: Path) -> None:
    write(path, HARDWARE, limit())
    link = path.parent.parent / path.name
    link.symlink_to(path)
    check(link)
    write(link, HARDWARE, limit(name="e.f"))
    assert link.is_symlink()
    assert list(load_profile(path).claims) == ["a.b", "e.f"]
    link.unlink()
    link.symlink_to(link)
    with pytest.raises(FileProblem, match="it is a broken link"):
        check(link)


@pytest.mark.parametrize(
    ("before", "name", "message"),
    [
        (
            WRITTEN,
            "A",
            "its new content is invalid: desk.calibrated.yaml:19:3: claims.A: a claim's name is lower-case words",
        ),
        (
            f"{WRITTEN.partition('    source:')[0]}    summary: mine\n",
            "c.d",
            "desk.calibrated.yaml:6:3: claims.a.b: is not from a calibration; write it in desk.yaml",
        ),
        ("claims: [", "c.d", "desk.calibrated.yaml:1:10: this is not YAML: expected the node"),
        ("claims: []\n", "c.d", "desk.calibrated.yaml:1:1: the key 'hardware' is missing"),
    ],
)
def test_a_refusal_leaves_the_file_as_it_was(
    path: Path, before: str, name: str, message: str
) -> None:
    path.parent.mkdir()
    path.write_text(before)
    with pytest.raises(FileProblem, match=re.escape(message)):
        write(path, HARDWARE, limit(name=name))
    assert path.read_text() == before
    assert [each.name for each in path.parent.iterdir()] == [path.name]
