"""The ownership of started targets.

Everything that a test starts belongs to its scope. A claim closes what a sample started before it takes the next one,
outside the measured time; the end of the test closes the rest.
"""

from __future__ import annotations

import copy
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Protocol, TypeVar

if TYPE_CHECKING:
    from typing_extensions import Self

    from pytest_vperf.targets.base import Facts, Program, Target

    T = TypeVar("T", bound=Target)


@dataclass(frozen=True)
class ToolUse:
    """A tool that ran in a target.

    Attributes:
        target: the target's name.
        program: its command and hash.
        version: as the tool reports it.
    """

    target: str
    program: Program
    version: str


class Closes(Protocol):
    """An object that can be closed."""

    def close(self) -> None:
        """End it."""
        ...


class Scope:
    """The targets of one test, in the order they were started."""

    def __init__(self) -> None:
        self._open: list[tuple[Closes, Facts | None]] = []
        self._facts: list[Facts] = []
        self._uses: list[ToolUse] = []

    def note_tool(self, target: str, program: Program, version: str) -> None:
        """Note that a tool is about to run in a target."""
        self._uses.append(ToolUse(target, program, version))
        self._look_again(target)

    def _look_again(self, name: str) -> None:
        """Read the host's facts again: its image is known only once one of its programs is used."""
        for place, (target, before) in enumerate(self._open):
            if before is None or (before.kind, before.name) != ("host", name):
                continue
            now = target.facts()  # type: ignore[attr-defined]
            if now != before:
                self._open[place] = target, now
                self._facts = [now if facts == before else facts for facts in self._facts]

    def take_tools(self) -> list[ToolUse]:
        """The tools noted since the last call, in order."""
        taken, self._uses = self._uses, []
        return taken

    def own(self, target: T) -> T:
        """Take over a started target: it is closed with the scope, and its facts go into the record."""
        try:
            facts = target.facts()
        except BaseException:
            target.close()
            raise
        self._open.append((target, facts))
        if facts not in self._facts:
            self._facts.append(facts)
        return target

    def keep(self, thing: Closes) -> None:
        """Take over another object, such as a disk: closed with the scope, after targets started later."""
        self._open.append((thing, None))

    def note_facts(self, facts: Facts) -> None:
        """Note facts for the record that are not a target's but affect the measurement, such as those of a load."""
        if facts not in self._facts:
            self._facts.append(facts)

    @property
    def facts(self) -> tuple[Facts, ...]:
        """The distinct facts of every target seen so far, in order of first appearance."""
        return tuple(self._facts)

    @property
    def mark(self) -> int:
        """The current position, for `close_since`."""
        return len(self._open)

    def facts_since(self, mark: int) -> tuple[Facts, ...]:
        """The facts of the targets owned since ``mark`` and still open, in the order they were started."""
        return tuple(facts for _, facts in self._open[mark:] if facts is not None)

    def close_since(self, mark: int = 0) -> None:
        """Close the targets owned since ``mark``, the last one first; then raise the first error, if any."""
        first: Exception | None = None
        while len(self._open) > mark:
            target, _ = self._open.pop()
            try:
                target.close()
            except Exception as error:
                first = first or error
        if first is not None:
            raise first


class Starter:
    """Starts targets of one kind, for one owner."""

    def _like(self, **changes: Any) -> Self:
        """A copy of this starter with other attributes, such as another scope."""
        other = copy.copy(self)
        vars(other).update(changes)
        return other
