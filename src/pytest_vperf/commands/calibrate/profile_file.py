"""The threshold file of a calibrated profile: its own claims are set, and everything else stays as it is.

Where in the text of a threshold file a claim stands, in lines; everything else keeps every byte.

A YAML library that keeps comments ties each to the value before it: the comment above a claim belongs to the last
value of the claim before, and goes when that value is replaced. Lines have no such ties.
"""

from __future__ import annotations

import os
import re
import tempfile
from codecs import BOM_UTF8
from collections import Counter
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import yaml

from pytest_vperf.machine.whole_file import write_whole
from pytest_vperf.thresholds.profile import ThresholdError, load_profile
from pytest_vperf.thresholds.reader import read_yaml
from pytest_vperf.thresholds.schema import CRITERIA
from pytest_vperf.thresholds.text_file import MAX_BYTES, read_bytes, read_text

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence


@dataclass(frozen=True)
class Key:
    """A key of a mapping with its value.

    Attributes:
        name: the key.
        first: its line, counted from 0.
        last: the last line of its value.
        column: where it begins, counted from 0.
        value: the node of the value.
    """

    name: str
    first: int
    last: int
    column: int
    value: Any

    @property
    def in_braces(self) -> bool:
        """Whether the value is a mapping in braces."""
        return isinstance(self.value, yaml.MappingNode) and bool(self.value.flow_style)


def keys(node: Any) -> dict[str, Key]:
    """The keys of a mapping, in their order.

    Args:
        node: from `yaml.compose`, of a file that `pytest_vperf.thresholds.profile` has read.
    """
    return {
        key.value: Key(key.value, key.start_mark.line, _last(value), key.start_mark.column, value)
        for key, value in node.value
    }


def _last(node: Any) -> int:
    """The last line of a node. The end that the parser tells of a block is where the next thing begins."""
    children = [each for pair in _pairs(node) for each in pair]
    if children and not node.flow_style:
        return max(map(_last, children))
    end = node.end_mark
    block_text = isinstance(node, yaml.ScalarNode) and node.style in ("|", ">")
    return int(end.line - 1 if block_text and end.column == 0 else end.line)


def _pairs(node: Any) -> Iterator[tuple[Any, ...]]:
    if isinstance(node, yaml.MappingNode):
        yield from node.value
    elif isinstance(node, yaml.SequenceNode):
        yield from ((each,) for each in node.value)


def comments(text: str) -> list[tuple[int, str]]:
    """Every comment with its line, counted from 0, without the ``#``."""
    inside = [False] * len(text)
    for token in yaml.scan(text, Loader=yaml.SafeLoader):
        if isinstance(token, yaml.ScalarToken):
            begin, end = token.start_mark.index, token.end_mark.index
            inside[begin:end] = [True] * (end - begin)
    found: list[tuple[int, str]] = []
    place = 0
    for number, line in enumerate(text.split("\n")):
        for column, letter in enumerate(line):
            if letter == "#" and not inside[place + column]:
                found.append((number, line[column + 1 :].strip()))
                break
        place += len(line) + 1
    return found


#: What a calibration sets of a claim; summary and judge are the user's.
_OURS = (*CRITERIA, "statistic", "unit", "source")


class FileProblem(Exception):
    """A file that cannot be written as it should be; it is as it was."""


def write(path: Path, head: Sequence[str], claims: Mapping[str, Sequence[str]]) -> None:
    """Set the limits of claims in a threshold file, whole or not at all.

    Args:
        path: the file; made where there is none.
        head: the lines of a new file above its claims.
        claims: by name the lines of criterion and source, without indentation of their own.

    Raises:
        FileProblem: a claim of the file has a figure that is not from a calibration, the file is in a form that lines
            cannot be set in, what came out would not be read as it is meant, or it was changed meanwhile.
        OSError: the file cannot be written.
    """
    try:
        raw = _bytes(path)
        before = None if raw is None else read_text(path, str(path))
        if before is None:
            entries = [line for name in claims for line in _entry(name, claims[name], "  ", "  ")]
            text = "\n".join([*head, "claims:", *entries, ""])
        else:
            text = _changed(before, claims)
        _check(path, text, before, set(claims))
        path.parent.mkdir(parents=True, exist_ok=True)
        mark = "\ufeff" if raw and raw.startswith(BOM_UTF8) else ""
        if _bytes(path) != raw or (raw and before and raw != f"{mark}{before}".encode()):
            raise FileProblem("somebody else changed it meanwhile")
    except ThresholdError as error:
        raise FileProblem(str(error)) from None
    write_whole(path, mark + text)


def check(path: Path) -> None:
    """Look, before anything is measured, whether a file can be written at all.

    Raises:
        FileProblem: `write` would refuse it whatever the claims are, or its folder cannot be written.
    """
    if path.is_symlink() and not path.exists():
        raise FileProblem("it is a link that leads nowhere")
    goal = path.resolve()  # a link stays a link
    folder = next(each for each in goal.parents if each.exists())
    if not os.access(folder, os.W_OK | os.X_OK):
        raise FileProblem(f"the folder {folder} cannot be written")
    if path.exists():
        try:
            _changed(read_text(path, str(path)), {})
        except ThresholdError as error:
            raise FileProblem(str(error)) from None


def _bytes(path: Path) -> bytes | None:
    """What the file is made of; ``None`` where there is none."""
    return read_bytes(path, str(path), MAX_BYTES, "threshold file") if path.exists() else None


def _changed(text: str, claims: Mapping[str, Sequence[str]]) -> str:
    """The text with the claims set. Lines that stay keep their ends; those that come have the end that most have."""
    if re.search(r"\r(?!\n)", text):
        raise FileProblem("a line ends in a carriage return alone: end lines as other programs do")
    end = "\r" if 2 * text.count("\r\n") > text.count("\n") else ""
    open_end = "" if text.endswith("\n") else end
    lines = (text + open_end).split("\n")
    root: Any = yaml.compose(text, Loader=yaml.SafeLoader)
    top = keys(root)
    whole = top["claims"]
    known = {} if not whole.value.value else keys(whole.value)
    if root.flow_style or (whole.in_braces and known):
        raise FileProblem("the claims are in braces: write each on lines of its own")
    indent = " " * next((each.column for each in known.values()), 2)
    said = comments(text)
    new = [name for name in claims if name not in known]
    added = [line for name in new for line in _entry(name, claims[name], indent, "  ")]
    if whole.in_braces and added:  # {}
        kept = [f"{indent}#{_spaced(note)}" for at, note in said if at == whole.first]
        lines[whole.first : whole.last + 1] = _ended(["claims:", *kept, *added], end)
    else:
        lines[whole.last + 1 : whole.last + 1] = _ended(added, end)
    for key in sorted(known.values(), key=lambda each: -each.first):
        if key.name in claims:
            lines[key.first : key.last + 1] = _replaced(key, claims[key.name], lines, said, end)
    return "\n".join(lines).removesuffix(open_end)


def _ended(lines: Iterable[str], end: str) -> list[str]:
    return [f"{line}{end}" for line in lines]


def _entry(name: str, ours: Sequence[str], indent: str, step: str) -> list[str]:
    return [f"{indent}{name}:", *(f"{indent}{step}{line}" for line in ours)]


def _replaced(
    claim: Key, ours: Sequence[str], lines: Sequence[str], said: Sequence[tuple[int, str]], end: str
) -> list[str]:
    """The lines of a claim with criterion and source set; comments in lines that go come before those that come."""
    parts = keys(claim.value)
    source = parts.get("source")
    from_us = source is not None and "calibrated" in keys(source.value)
    if not from_us and not ("unknown" in parts and source is None):
        raise FileProblem(f"{claim.name} has a figure that is not from a calibration")
    indent = " " * claim.column
    if claim.in_braces:
        users = [pair for pair in claim.value.value if pair[0].value not in _OURS]
        block = yaml.MappingNode(claim.value.tag, users, flow_style=False)
        text = yaml.serialize(block, width=10_000, allow_unicode=True).splitlines() if users else []
        notes = [
            f"{indent}  #{_spaced(note)}" for at, note in said if claim.first <= at <= claim.last
        ]
        entry = _entry(claim.name, [*text, *ours], indent, "  ")
        return _ended([entry[0], *notes, *entry[1:]], end)
    gone = {
        number
        for name, part in parts.items()
        if name in _OURS
        for number in range(part.first, part.last + 1)
    }
    inner = " " * next(iter(parts.values())).column
    result: list[str] = []
    for number in range(claim.first, claim.last + 1):
        if number == min(gone):
            notes = [f"#{_spaced(note)}" for at, note in said if at in gone]
            result += _ended((f"{inner}{line}" for line in [*notes, *ours]), end)
        if number not in gone:
            result.append(lines[number])
    return result


def _spaced(note: str) -> str:
    return f" {note}" if note else ""


def _check(path: Path, text: str, before: str | None, ours: set[str]) -> None:
    """What came out is read by the loader, and says of everything else what it said before.

    Raises:
        FileProblem: the loader does not read it, or something else has changed.
    """
    with tempfile.TemporaryDirectory(prefix="vperf-calibrate-") as name:
        draft = Path(name) / path.name
        draft.write_text(text, "utf-8")
        try:
            load_profile(draft)
        except ThresholdError as error:
            raise FileProblem(
                f"it would not be right: {error}".replace(str(draft), path.name)
            ) from None
        data = read_yaml(draft, str(path)).data
        if before is None:
            return
        draft.write_text(before, "utf-8")
        old = read_yaml(draft, str(path)).data
    if _others(old, ours) != _others(data, ours):
        raise FileProblem("other claims would change; write the file in plain blocks")
    notes = [Counter(note for _, note in comments(each)) for each in (before, text)]
    if notes[0] != notes[1]:
        raise FileProblem("comments would be lost; write each on a line of its own")


def _others(data: Any, ours: set[str]) -> Any:
    """All that is not ours: of our claims what the user says of them."""
    claims = {
        name: {key: value for key, value in part.items() if key not in _OURS}
        for name, part in data["claims"].items()
        if name in ours
    }
    rest = {name: part for name, part in data["claims"].items() if name not in ours}
    return {**data, "claims": [{name: part for name, part in claims.items() if part}, rest]}
