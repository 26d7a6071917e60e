"""Limits set in a threshold file: what is not theirs keeps every byte."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from pytest_vperf.calibration.limits import Calibrated, Circumstance
from pytest_vperf.calibration.profile_file import FileProblem, write
from pytest_vperf.calibration.yaml_lines import comments
from pytest_vperf.claims.thresholds import load_profile

if TYPE_CHECKING:
    from pathlib import Path

UNDER = Circumstance(
    date="2026-11-22",
    machine={"cpu_model": 'a "b" # c', "logical_cpus": "2"},
    noisy="",
    version="0.1.0",
    confidence=0.99,
    next_runs=20,
)
HEAD = ["hardware:", "  name: desk", "  match: {logical_cpus: 2}"]


def limit(text: str = "400 ms", name: str = "a.b") -> dict[str, list[str]]:
    made = Calibrated(
        name, "at_most", text, ("371 ms", "376 ms", "369 ms"), (24, 24, 9), "1 %", "6 %", False
    )
    return {name: made.lines(UNDER)}


#: What the lines of `limit` are, at the indentation of a claim's keys.
SOURCE = """\
    source:
      calibrated:
        date: "2026-11-22"
        figures: [371 ms, 376 ms, 369 ms]
        samples: [24, 24, 9]
        spread: 1 %
        margin: 6 %
        confidence: 99 %
        next_runs: 20
        vperf: "0.1.0"
        machine: {cpu_model: "a \\"b\\" # c", logical_cpus: "2"}
"""
BEFORE = """\
# The desk beside the window.
hardware: {name:  desk, match: {logical_cpus: 2}}   # two spaces, kept

claims:
  # published, and not ours
  start.shell:
    at_most:   4 ms   # as printed
    source: {document: "a paper", published: {max: 4 ms}}

  # between two
  a.b:
    # the sentence
    summary: 'a # b'
    unknown: not measured yet   # by whom?
    unit: ms
    judge: {pairs: 64}

  # the last one
  c.d: {unknown: "x", unit: ms, summary: "it: holds"}  # in braces
# the end
"""


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "thresholds" / "desk.yaml"


@pytest.fixture
def existing(path: Path) -> Path:
    path.parent.mkdir()
    path.write_text(BEFORE)
    return path


def test_a_new_file(path: Path) -> None:
    write(path, HEAD, limit())
    text = "\n".join([*HEAD, "claims:", "  a.b:", "    at_most: 400 ms", SOURCE])
    assert path.read_text() == text
    source = load_profile(path).claims["a.b"].source
    assert source is not None
    assert source.calibration is not None


def test_a_claim_in_a_block(existing: Path) -> None:
    write(existing, HEAD, limit())
    expected = BEFORE.replace(
        "    unknown: not measured yet   # by whom?\n    unit: ms\n",
        f"    # by whom?\n    at_most: 400 ms\n{SOURCE}",
    )
    assert existing.read_text() == expected


def test_a_claim_in_braces(existing: Path) -> None:
    write(existing, HEAD, limit(name="c.d"))
    expected = BEFORE.replace(
        '  c.d: {unknown: "x", unit: ms, summary: "it: holds"}  # in braces\n',
        f'  c.d:\n    # in braces\n    summary: "it: holds"\n    at_most: 400 ms\n{SOURCE}',
    )
    assert existing.read_text() == expected


def test_a_new_claim_comes_last(existing: Path) -> None:
    write(existing, HEAD, limit(name="e.f"))
    expected = BEFORE.replace("# the end\n", f"  e.f:\n    at_most: 400 ms\n{SOURCE}# the end\n")
    assert existing.read_text() == expected


def test_the_second_calibration_replaces_the_first_and_nothing_else(existing: Path) -> None:
    write(existing, HEAD, {**limit(), **limit(name="e.f")})
    first = existing.read_text()
    write(existing, HEAD, limit("390 ms"))
    assert existing.read_text() == first.replace("400 ms", "390 ms", 1)
    write(existing, HEAD, limit("400 ms"))
    assert existing.read_text() == first


def test_comments_inside_of_what_is_replaced_stay(existing: Path) -> None:
    write(existing, HEAD, limit())
    text = existing.read_text().replace("spread: 1 %", "spread: 1 %  # quiet\n        # night")
    existing.write_text(text)
    write(existing, HEAD, limit("390 ms"))
    assert "    # quiet\n    # night\n    at_most: 390 ms\n" in existing.read_text()


def test_no_claims_so_far(path: Path) -> None:
    path.parent.mkdir()
    path.write_text("hardware: {name: desk, match: {logical_cpus: 2}}\nclaims: {}  # none\n")
    write(path, HEAD, limit())
    assert path.read_text() == (
        "hardware: {name: desk, match: {logical_cpus: 2}}\nclaims:\n"
        f"  # none\n  a.b:\n    at_most: 400 ms\n{SOURCE}"
    )


def test_line_ends_of_windows(existing: Path) -> None:
    existing.write_bytes(BEFORE.replace("\n", "\r\n").encode())
    write(existing, HEAD, limit(name="e.f"))
    expected = BEFORE.replace("# the end\n", f"  e.f:\n    at_most: 400 ms\n{SOURCE}# the end\n")
    assert existing.read_bytes() == expected.replace("\n", "\r\n").encode()


def test_a_file_without_a_last_line_end(existing: Path) -> None:
    text = BEFORE.removesuffix("# the end\n").rstrip("\n")
    existing.write_text(text)
    write(existing, HEAD, limit(name="e.f"))
    assert existing.read_text() == f"{text}\n  e.f:\n    at_most: 400 ms\n{SOURCE}".rstrip("\n")


def test_block_texts_end_where_they_end(path: Path) -> None:
    path.parent.mkdir()
    text = (
        "hardware: {name: desk, match: {logical_cpus: 2}}\nclaims:\n  a.b:\n    unit: ms\n"
        "    unknown: >-\n      a longer\n      reason\n\n  # next\n  c.d: {at_most: 3 ms}\n"
    )
    path.write_text(text)
    write(path, HEAD, limit())
    assert path.read_text().endswith("\n  # next\n  c.d: {at_most: 3 ms}\n")
    assert "reason" not in path.read_text()


@pytest.mark.parametrize(
    ("before", "name", "message"),
    [
        (BEFORE, "start.shell", "start.shell has a figure that is not from a calibration"),
        (
            BEFORE.replace("unit: ms\n", "unit: ms\n    source: {document: d}\n", 1),
            "a.b",
            "a.b has a figure that is not from a calibration",
        ),
        (
            "hardware: {name: desk, match: {logical_cpus: 2}}\nclaims: {a.b: {unknown: x, unit: ms}}\n",
            "a.b",
            "the claims are in braces: write each on lines of its own",
        ),
        (
            BEFORE,
            "A",
            r"it would not be right: desk\.yaml:20:3: claims.A: a claim's name is lower-case words",
        ),
    ],
)
def test_what_is_refused_leaves_the_file_as_it_was(
    path: Path, before: str, name: str, message: str
) -> None:
    path.parent.mkdir()
    path.write_text(before)
    with pytest.raises(FileProblem, match=message):
        write(path, HEAD, limit(name=name))
    assert path.read_text() == before
    assert [each.name for each in path.parent.iterdir()] == ["desk.yaml"]


def test_comments_are_told_from_texts() -> None:
    text = "a: 'x # y'  # one\nb: z#z # two\n# three\nc: \"#\"\n"
    assert comments(text) == [(0, "one"), (1, "two"), (2, "three")]
