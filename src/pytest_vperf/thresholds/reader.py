"""A YAML file as plain data, with the place of every key and value, and nothing surprising in it.

Only a plain subset of YAML is read: one document of mappings, lists, texts and decimal numbers. What YAML adds
to that has cost others dear (aliases that unfold to gigabytes, tags that call constructors, ``no`` for false,
``1:30`` for 90, the last of two equal keys silently winning) and is refused with the place where it stands.
The parser's events are read one by one, without recursion and up to a limit, so that no file takes long.
"""

from __future__ import annotations

import math
import re
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import yaml
from yaml.resolver import Resolver

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
MAX_EVENTS = 20_000

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
        ThresholdError: it cannot be read, or is not YAML, or uses what is refused because it hides the rest:
            anchors, tags, a second document, great depth.
    """
    text = read_text(path, name)
    source = YamlSource(name)
    try:
        _Builder(source).build(text)
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


@dataclass
class _Open:
    """A mapping or list whose end has not come yet.

    Attributes:
        value: what was read of it.
        path: where it is.
        key: of a mapping: the key that waits for its value.
        dropped: that value is read on for its mistakes only, since the key was there before.
    """

    value: dict[str, Any] | list[Any]
    path: DataPath
    key: str | None = None
    dropped: bool = False


class _Builder:
    """Makes data of the parser's events."""

    def __init__(self, source: YamlSource) -> None:
        self._source = source
        self._stack: list[_Open] = []
        self._resolver: Any = Resolver()
        self._documents = 0

    def build(self, text: str) -> None:
        for number, event in enumerate(yaml.parse(text, Loader=yaml.SafeLoader)):
            if number > MAX_EVENTS:
                raise self._refuse(event, "the file has too many values; no threshold file has")
            self._take(event)
        if not self._documents:
            raise ThresholdError([f"{self._source.name}: the file is empty"])

    def _take(self, event: Any) -> None:
        if isinstance(event, yaml.DocumentStartEvent):
            self._documents += 1
            if self._documents > 1:
                raise self._refuse(event, "a second document begins; a file holds one profile")
        elif isinstance(event, yaml.AliasEvent):
            raise self._refuse(event, f"the alias {shown(f'*{event.anchor}')} {_PLAIN}")
        elif isinstance(event, yaml.CollectionEndEvent):
            self._stack.pop()
        elif isinstance(event, yaml.NodeEvent):
            self._node(event)

    def _node(self, event: Any) -> None:
        if event.anchor is not None:
            raise self._refuse(event, f"the anchor {shown(f'&{event.anchor}')} {_PLAIN}")
        if event.tag is not None:
            raise self._refuse(event, f"the tag {shown(event.tag)} {_PLAIN}")
        top = self._stack[-1] if self._stack else None
        is_key = top is not None and isinstance(top.value, dict) and top.key is None
        if isinstance(event, yaml.ScalarEvent):
            if top is not None and is_key:
                self._key(top, event)
            else:
                value, message = self._resolve(event)
                self._place(event, value, message)
            return
        if is_key:
            raise self._refuse(event, "a key must be a text, not a mapping or a list")
        if len(self._stack) >= MAX_DEPTH:
            raise self._refuse(event, f"values are nested more than {MAX_DEPTH} deep")
        started: dict[str, Any] | list[Any] = (
            {} if isinstance(event, yaml.MappingStartEvent) else []
        )
        self._stack.append(_Open(started, self._place(event, started)))

    def _place(self, event: Any, value: object, message: str = "") -> DataPath:
        """Put a value where the file has it, and note its place and what is wrong with it."""
        path: DataPath = ()
        top = self._stack[-1] if self._stack else None
        if top is None:
            self._source.data = value
        elif isinstance(top.value, list):
            path = (*top.path, len(top.value))
            top.value.append(value)
        else:
            assert top.key is not None
            path = (*top.path, top.key)
            if not top.dropped:
                top.value[top.key] = value
            top.key, top.dropped = None, False
        self._source._values.setdefault(path, _position(event))
        if message:
            self._problem(path, message, event)
        return path

    def _key(self, top: _Open, event: Any) -> None:
        name: str = event.value
        path = (*top.path, name)
        top.key = name
        value, message = self._resolve(event)
        if isinstance(top.value, dict) and name in top.value:
            top.dropped = True
            line = self._source._keys[path][0]
            message = f"the key {shown(name)} is here twice, first in line {line}"
        elif event.implicit[0] and name == "<<":
            message = f"the merge key '<<' {_PLAIN}"
        elif not isinstance(value, str) and not message:
            message = f"a key must be a text; to use {shown(name)} put it in quotes"
        self._source._keys.setdefault(path, _position(event))
        if message:
            self._problem(path, message, event)

    def _problem(self, path: DataPath, message: str, event: Any) -> None:
        self._source.problems.append(Problem(path, message, position=_position(event)))

    def _refuse(self, event: Any, message: str) -> ThresholdError:
        line, column = _position(event)
        top = self._stack[-1] if self._stack else None
        path = () if top is None else top.path if top.key is None else (*top.path, top.key)
        prefix = f"{key_path(path)}: " if path else ""
        return ThresholdError([f"{self._source.name}:{line}:{column}: {prefix}{message}"])

    def _resolve(self, event: Any) -> tuple[object, str]:
        """The value of a scalar, and what is wrong with it."""
        text: str = event.value
        if _CONTROL.search(text.replace("\n", " ")):
            return text, f"{shown(text)} has a control character in it"
        if not event.implicit[0]:  # in quotes, or a block
            return text, ""
        tag = self._resolver.resolve(yaml.ScalarNode, text, (True, False)).rpartition(":")[2]
        if tag in ("int", "float"):
            return _number(text)
        reads = {"bool": "true or false", "timestamp": "a date", "null": "nothing"}
        if not text:
            return text, "has no value"
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


def _position(event: Any) -> _Position:
    return event.start_mark.line + 1, event.start_mark.column + 1
