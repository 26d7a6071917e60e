"""The ownership of started targets.

Everything that a test starts belongs to its scope. A claim closes what a sample started before it takes the next one,
outside the measured time; the end of the test closes the rest.
"""

from __future__ import annotations

import copy
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Protocol, TypeVar, cast

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from typing_extensions import Self

    from pytest_vperf.targets.base import Facts, Program, Target

    T = TypeVar("T", bound=Target)


#: Samples per target before it is replaced.
SAMPLES = 4


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


#: Kinds of targets that run an image's programs in place.
_IN_PLACE = ("host", "machine")


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
            if before is None or before.kind not in _IN_PLACE or before.name != name:
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

    def _for(self, scope: Scope) -> Self:
        """A copy of this starter whose targets another scope owns."""
        return self._like(_scope=scope)

    def running(self, *, samples: int = SAMPLES, **options: Any) -> Running:
        """A target for samples that need no fresh start each: call it in a sample.

        Args:
            samples: how many a target gives before it is replaced.
            options: for ``start``.

        Raises:
            ValueError: ``samples`` is less than 1.
        """
        own, scope = Scope(), vars(self)["_scope"]
        return Running(self._for(own), own, scope, samples, options)


class Starting(Starter):
    """Starts the targets that a function makes, for one owner.

    Args:
        make: starts a target; gets the options of `start`.
        scope: owns it.
    """

    def __init__(self, make: Callable[..., Any], scope: Scope) -> None:
        self._make, self._scope = make, scope

    def start(self, **options: Any) -> Any:
        """A target; the end of the sample, or of the test, ends it.

        Raises:
            Unavailable: such a target is unavailable here.
            CannotStart: it does not start.
        """
        return self._scope.own(self._make(**options))


class Running:
    """Call it in each sample for a target, which is replaced now and then by another one.

    A target's performance does not depend on what it is made of alone. The placement of a kernel and its data in
    memory, for example, is random at each start (KASLR; which pages of the host it gets) and fixed until the next:
    two machines with the *same* kernel can differ for as long as they run, however often they are sampled. So a
    comparison needs many starts. A replacement does not distort the sample it falls into: tools time themselves.
    """

    def __init__(
        self,
        starter: Any,
        own: Scope,
        scope: Scope,
        samples: int,
        options: Mapping[str, Any],
    ) -> None:
        if samples < 1:
            raise ValueError(f"samples is {samples}, not a whole number of at least 1")
        # Targets of the test's scope end with the sample; these stay for several.
        self._own = own
        self._starter = starter
        self._scope = scope
        self._samples = samples
        self._options = dict(options)
        self._target: Any = None
        self._left = 0
        scope.keep(self)

    def __call__(self) -> Any:
        """The target for the next sample.

        Raises:
            Unavailable: such a target is unavailable here.
            CannotStart: it does not start.
        """
        if not self._left:
            self.close()
            self._target = self._starter.start(**self._options)
            self._left = self._samples
        self._left -= 1
        self._scope.own(cast("Target", _Lent(self._target)))
        return self._target

    def close(self) -> None:
        """End the target; the next sample gets a new one."""
        self._target, self._left = None, 0
        self._own.close_since()


@dataclass(frozen=True, eq=False)
class _Lent:
    """A target lent to one sample: its facts are recorded with the sample, and it outlives the sample."""

    target: Any

    def facts(self) -> Facts:
        facts: Facts = self.target.facts()
        return facts

    def close(self) -> None:
        """Do nothing: the target stays for the next sample."""
