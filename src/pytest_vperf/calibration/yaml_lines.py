"""Where in the text of a threshold file a claim stands, in lines; everything else keeps every byte.

A YAML library that keeps comments ties each to the value before it: the comment above a claim belongs to the last
value of the claim before, and goes when that value is replaced. Lines have no such ties.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import yaml

if TYPE_CHECKING:
    from collections.abc import Iterator


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
        node: from `yaml.compose`, of a file that `pytest_vperf.claims.thresholds` has read.
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
