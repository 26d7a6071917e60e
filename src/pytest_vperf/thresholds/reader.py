"""A YAML file as plain data, with the place of every key and value, and nothing surprising in it.

Only a plain subset of YAML is read: one document of mappings, lists, texts and decimal numbers. What YAML adds
to that has cost others dear (aliases that unfold to gigabytes, tags that call constructors, ``no`` for false,
``1:30`` for 90, the last of two equal keys silently winning) and is refused with the place where it stands.
Depth and number of values have a limit, so that no file takes long.
"""

from __future__ import annotations

import math
import re
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import yaml

from pytest_vperf.thresholds.text_file import (
    DataPath,
    Problem,
    ThresholdError,
    key_path,
    read_text,
    shown,
)

if TYPE_CHECKING:
    from collections.abc import Iterable
    from pathlib import Path

MAX_DEPTH = 20
MAX_NODES = 20_000

_CONTROL = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u2028\u2029]")
_INTEGER = re.compile(r"[-+]?(?:0|[1-9][0-9]{0,17})")
_FLOAT = re.compile(r"[-+]?(?:(?:0|[1-9][0-9]*)(?:\.[0-9]*)?|\.[0-9]+)(?:[eE][-+]?[0-9]{1,3})?")

_Position = tuple[int, int]


@dataclass
class YamlSource:
    """The data of a file.

    Attributes:
        name: the file as messages show it.
        data: mappings, lists, texts, whole numbers and floats.
        problems: what was refused while reading; the data is of use all the same.
    """

    name: str
    data: Any = None
    problems: list[Problem] = field(default_factory=list)
    _keys: dict[DataPath, _Position] = field(default_factory=dict)
    _values: dict[DataPath, _Position] = field(default_factory=dict)

    def line(self, path: DataPath) -> int:
        """The line of a key, counted from 1."""
        return self._keys[path][0]

    def lines(self, problems: Iterable[Problem]) -> list[str]:
        """``FILE:LINE:COLUMN: KEY.PATH: MESSAGE`` for each problem, in the order of the file."""
        placed = sorted((self._position(each), each.path, each.message) for each in set(problems))
        return [
            f"{self.name}:{line}:{column}: {key_path(path)}{': ' if path else ''}{message}"
            for (line, column), path, message in placed
        ]

    def _position(self, problem: Problem) -> _Position:
        path = problem.path
        if problem.position is not None:
            return problem.position
        if path in self._keys and (problem.at_key or path not in self._values):
            return self._keys[path]
        while path and path not in self._values:
            path = path[:-1]
        return self._values.get(path, (1, 1))


def read_yaml(path: Path, name: str) -> YamlSource:
    """Read a file.

    Args:
        path: the file.
        name: how messages show it.

    Raises:
        ThresholdError: it cannot be read, or see `parse_yaml`.
    """
    return parse_yaml(read_text(path, name), name)


def parse_yaml(text: str, name: str) -> YamlSource:
    """Parse the text of a file.

    Args:
        text: the text.
        name: how messages show the file.

    Raises:
        ThresholdError: it is not YAML, or uses what is refused because it hides the rest: anchors, tags, a second
            document, great depth.
    """
    source = YamlSource(name)
    try:
        source.data = _data(_Composer(text, source).compose_file(), (), source)
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark or error.context_mark
        where = f":{mark.line + 1}:{mark.column + 1}" if mark else ""
        what = error.problem or error.context or "it cannot be parsed"
        if what.startswith("mapping values"):
            what = "a second ': ' in one line; a text that has ': ' in it is put in quotes"
        raise ThresholdError([f"{name}{where}: this is not YAML: {what}"]) from None
    except yaml.YAMLError as error:
        what = " ".join(str(error).split())
        raise ThresholdError([f"{name}: this is not YAML: {what}"]) from None
    except (ValueError, OverflowError):
        # Numbers in escapes and directives, which the parser does not check and gives no place for.
        raise ThresholdError(
            [f"{name}: this is not YAML: a character's number is out of range"]
        ) from None
    return source


class _Composer(yaml.SafeLoader):
    """PyYAML's own composer, which refuses what the subset leaves out before it is unfolded.

    The composer recurses once per level, so that the limit of depth keeps it from Python's own.
    """

    def __init__(self, text: str, source: YamlSource) -> None:
        super().__init__(text)
        self._source = source
        self._path: list[str | int] = []
        self._nodes = 0

    def compose_file(self) -> Any:
        """The root of the one document of the file."""
        self.get_event()  # type: ignore[no-untyped-call]  # the stream's start
        if self.check_event(yaml.StreamEndEvent):
            raise ThresholdError([f"{self._source.name}: the file is empty"])
        root = self.compose_document()
        if not self.check_event(yaml.StreamEndEvent):
            raise self._refuse("a second document begins; a file holds one profile")
        return root

    def compose_node(self, parent: yaml.Node | None, index: Any) -> yaml.Node | None:
        """Compose one key (``index`` is ``None`` in a mapping), value, or the root (no parent)."""
        event: Any = self.peek_event()  # type: ignore[no-untyped-call]
        is_key = isinstance(parent, yaml.MappingNode) and index is None
        level = [] if parent is None or is_key else [getattr(index, "value", index)]
        self._path += level
        self._nodes += 1
        if self._nodes > MAX_NODES:
            raise self._refuse("the file has too many values; no threshold file has")
        if isinstance(event, yaml.AliasEvent):
            raise self._refuse(f"the alias {shown(f'*{event.anchor}')} {_PLAIN}")
        if event.anchor is not None:
            raise self._refuse(f"the anchor {shown(f'&{event.anchor}')} {_PLAIN}")
        if event.tag is not None:
            raise self._refuse(f"the tag {shown(event.tag)} {_PLAIN}")
        if not isinstance(event, yaml.ScalarEvent):
            if is_key:
                raise self._refuse("a key must be a text, not a mapping or a list")
            if len(self._path) >= MAX_DEPTH:
                raise self._refuse(f"values are nested more than {MAX_DEPTH} deep")
        node = super().compose_node(parent, index)
        del self._path[len(self._path) - len(level) :]
        return node

    def _refuse(self, message: str) -> ThresholdError:
        line, column = _position(self.peek_event())  # type: ignore[no-untyped-call]
        prefix = f"{key_path(tuple(self._path))}: " if self._path else ""
        return ThresholdError([f"{self._source.name}:{line}:{column}: {prefix}{message}"])


def _data(node: Any, path: DataPath, source: YamlSource) -> Any:
    """The plain data of a node; notes in ``source`` its place and what is wrong with it."""
    source._values.setdefault(path, _position(node))
    if isinstance(node, yaml.SequenceNode):
        return [_data(each, (*path, number), source) for number, each in enumerate(node.value)]
    if isinstance(node, yaml.MappingNode):
        data: dict[str, Any] = {}
        for key, value in node.value:
            where = (*path, key.value)
            first = source._keys.setdefault(where, _position(key))
            if message := _wrong_key(key, first[0] if key.value in data else None):
                source.problems.append(Problem(where, message, position=_position(key)))
            read = _data(value, where, source)  # of a key that is there twice for its mistakes only
            data.setdefault(key.value, read)
        return data
    value, message = _scalar(node)
    if message:
        source.problems.append(Problem(path, message, position=_position(node)))
    return value


def _wrong_key(key: yaml.ScalarNode, first: int | None) -> str:
    """What is wrong with a key; ``first`` is the line where the mapping has had it before."""
    value, message = _scalar(key)
    if first is not None:
        return f"the key {shown(key.value)} is here twice, first in line {first}"
    if key.style is None and key.value == "<<":
        return f"the merge key '<<' {_PLAIN}"
    if not isinstance(value, str) and not message:
        return f"a key must be a text; to use {shown(key.value)} put it in quotes"
    return message


def _scalar(node: yaml.ScalarNode) -> tuple[object, str]:
    """The value of a scalar, and what is wrong with it."""
    text: str = node.value
    if _CONTROL.search(text.replace("\n", " ")):
        return text, f"{shown(text)} has a control character in it"
    if node.style is not None:  # in quotes, or a block
        return text, ""
    tag = node.tag.rpartition(":")[2]
    if tag in ("int", "float"):
        return _number(text)
    if not text:
        return text, "has no value"
    reads = {"bool": "true or false", "timestamp": "a date", "null": "nothing"}
    if tag in reads:
        return text, f"YAML reads {shown(text)} as {reads[tag]}; as a text put it in quotes"
    return text, ""


_PLAIN = "is not allowed here: write the value itself"


def _number(text: str) -> tuple[object, str]:
    if _INTEGER.fullmatch(text):
        return int(text), ""
    if _FLOAT.fullmatch(text) and math.isfinite(float(text)):
        return float(text), ""
    if text.lstrip("+-").lower() in (".nan", ".inf") or _FLOAT.fullmatch(text):
        return text, f"{shown(text)} is not a finite number"
    kind = "to the base 60" if ":" in text else "in another notation than the usual one"
    return text, f"YAML reads {shown(text)} as a number {kind}; as a text put it in quotes"


def _position(at: Any) -> _Position:
    return at.start_mark.line + 1, at.start_mark.column + 1
