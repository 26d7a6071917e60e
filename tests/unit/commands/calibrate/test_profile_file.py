"""Limits set in a threshold file: what is not theirs keeps every byte."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

import pytest

from pytest_vperf.commands.calibrate import profile_file
from pytest_vperf.commands.calibrate.limits import Calibrated, Circumstance
from pytest_vperf.commands.calibrate.profile_file import FileProblem, check, comments, write
from pytest_vperf.thresholds.profile import load_profile

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


def test_a_byte_order_mark_and_line_ends_of_both_kinds_stay(existing: Path) -> None:
    mixed = BEFORE.replace("\n", "\r\n", 5).encode("utf-8-sig")
    existing.write_bytes(mixed)
    write(existing, HEAD, {**limit(), **limit(name="c.d"), **limit(name="e.f")})
    after = existing.read_bytes()
    begin = mixed.index(b"    unknown:")
    assert after[:begin] == mixed[:begin]
    assert after.endswith(b"\n# the end\n")
    assert after.count(b"\r") == 5  # most lines of this file end as Unix has it
    assert load_profile(existing).claims["e.f"].source is not None


def test_line_ends_of_windows_but_for_the_last(existing: Path) -> None:
    text = BEFORE.removesuffix("# the end\n").rstrip("\n")
    existing.write_bytes(text.replace("\n", "\r\n").encode())
    write(existing, HEAD, limit(name="e.f"))
    expected = f"{text}\n  e.f:\n    at_most: 400 ms\n{SOURCE}".rstrip("\n")
    assert existing.read_bytes() == expected.replace("\n", "\r\n").encode()


def test_a_file_that_is_changed_while_it_is_written_is_kept(
    existing: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    check_draft = profile_file._check

    def edited(path: Path, text: str, before: str | None, ours: set[str]) -> None:
        check_draft(path, text, before, ours)
        with path.open("a") as stream:
            stream.write("# an editor was quicker\n")

    monkeypatch.setattr(profile_file, "_check", edited)
    with pytest.raises(FileProblem, match="somebody else changed it meanwhile"):
        write(existing, HEAD, limit())
    assert existing.read_text() == f"{BEFORE}# an editor was quicker\n"


def test_what_is_known_before_a_measurement(path: Path, existing: Path) -> None:
    check(existing)
    check(path.parent / "new" / "desk.yaml")
    existing.write_text(
        "hardware: {name: desk, match: {logical_cpus: 2}}\nclaims: {a.b: {at_most: 1 s}}\n"
    )
    with pytest.raises(FileProblem, match="the claims are in braces"):
        check(existing)
    existing.write_bytes(BEFORE.replace("\n", "\r").encode())
    with pytest.raises(FileProblem, match="a line ends in a carriage return alone"):
        check(existing)


def test_a_folder_that_cannot_be_written_is_known_before(
    existing: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(os, "access", lambda path, mode: path != existing.parent)
    with pytest.raises(FileProblem, match=f"the folder {existing.parent} cannot be written"):
        check(existing)


def test_a_link_stays_a_link(path: Path, existing: Path) -> None:
    link = path.parent.parent / "desk.yaml"
    link.symlink_to(existing)
    check(link)
    write(link, HEAD, limit(name="e.f"))
    assert link.is_symlink()
    assert "e.f" in load_profile(existing).claims
    link.unlink()
    link.symlink_to(link)
    with pytest.raises(FileProblem, match="it is a link that leads nowhere"):
        check(link)


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
