"""The sides of a gate: two or more builds of which the same samples are taken, each on targets of its own.

A side is an overlay of settings. What depends on one of them is made once for each side, by `Sides.each`, and handed
out as one `Sided` thing. While a side is sampled, the thing is that side's. Outside of a sample, in fixtures and in
the set-up of a test, whatever is called runs on every side, base first: so the container that a fixture starts is
started on each, and stands for the side that is sampled later. A test needs no change, and cannot tell.

``env.NAME`` and ``path`` are variables of this process while a side is sampled or set up; commands on the host
inherit them.
"""

from __future__ import annotations

import contextlib
import operator
import os
from dataclasses import dataclass, field
from pathlib import PurePath
from typing import TYPE_CHECKING, Any, ParamSpec, TypeVar, cast

from pytest_vperf.targets.base import TargetError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping

_T = TypeVar("_T")
_P = ParamSpec("_P")

#: The prefix of settings that are environment variables.
ENV = "env."
#: The settings that processes on the host inherit.
INHERITED = (ENV, "path")


#: Has sides compared that are equal.
SAME_ON_PURPOSE = "--same-on-purpose"


class EqualSides(TargetError):
    """Two sides turned out to be the same, which their settings do not tell."""


class DiffersBetweenSides(TypeError):
    """Something that differs between the sides was used as one value, outside of a sample."""


@dataclass(frozen=True)
class Side:
    """One side.

    Attributes:
        name: ``base``, ``head``, or what a head was called.
        settings: the overlay, as it was given: ``runtime``, ``path``, ``env.GOGC``.
        identity: what each is, for the header and the record: SHA-256, version.
    """

    name: str
    settings: Mapping[str, str] = field(default_factory=dict)
    identity: Mapping[str, str] = field(default_factory=dict)

    @property
    def mark(self) -> str:
        """The suffix of the names of its targets."""
        return f" ({self.name})" if self.name else ""

    def of(self, thing: _T) -> _T:
        """This side's own of a thing that may be `Sided`."""
        if type(thing) is Sided:
            return cast("_T", cast("Sided", thing)._of(self))
        return thing


@dataclass
class Sides:
    """The sides of a run; without any, everything is as it is in other runs.

    Attributes:
        base: what the heads are compared with.
        heads: at least one in a gate, else none.
        current: the side that is sampled or set up now; ``None``: none.
        made_a_difference: whether something that differs between the sides was used since a claim set it to false.
        same_on_purpose: whether equal sides are compared.
        learnt: by side and key what a setting turned out to be when it was used, see `learn`.
    """

    base: Side = Side("")
    heads: tuple[Side, ...] = ()
    current: Side | None = field(default=None, compare=False)
    made_a_difference: bool = field(default=False, compare=False)
    same_on_purpose: bool = field(default=False, compare=False)
    learnt: dict[tuple[str, str], str] = field(default_factory=dict, compare=False)

    def __bool__(self) -> bool:
        return bool(self.heads)

    @property
    def all(self) -> tuple[Side, ...]:
        """Every side, base first."""
        return (self.base, *self.heads)

    def differ_in(self, *keys: str) -> bool:
        """Whether any side has one of these settings; ``env.`` stands for all variables."""
        given = {ENV if key.startswith(ENV) else key for side in self.all for key in side.settings}
        return bool(self.heads) and not given.isdisjoint(keys)

    def each(self, make: Callable[[Side], _T], *keys: str, of: Iterable[object] = ()) -> _T:
        """What a function makes, once for each side where the sides differ in it.

        Args:
            make: makes it for one side.
            keys: the settings that it depends on.
            of: other things that it depends on, which may be `Sided` themselves; ``side.of(thing)`` is the side's.
        """
        if not self.differ_in(*keys) and not any(type(thing) is Sided for thing in of):
            return make(Side(""))
        things = {}
        for side in self.all:
            with self.at(side):
                things[side.name] = make(side)
        return cast("_T", Sided(self, things))

    def learn(self, side: Side, key: str, identity: str) -> None:
        """Note what a setting of a side turned out to be: a name may stand for the same image as another one.

        Args:
            side: whose it is; one that the run does not have is ignored.
            key: the setting.
            identity: equal for what is the same: the hash of an image's files, the ID of an engine.

        Raises:
            EqualSides: another side is the same as this one.
        """
        if not any(side is each for each in self.all):
            return
        self.learnt[side.name, key] = identity
        for other in self.all:
            if other is not side and not self.same_on_purpose and self._are_equal(side, other):
                first, last = sorted((side, other), key=self.all.index)
                raise EqualSides(
                    f"both sides turn out to be the same: {self._words(first)} and {self._words(last)}; "
                    f"to compare them all the same: {SAME_ON_PURPOSE}"
                )

    def _are_equal(self, one: Side, other: Side) -> bool:
        return all(
            one.settings.get(key) == other.settings.get(key)
            or self.learnt.get((one.name, key), one) == self.learnt.get((other.name, key), other)
            for key in {*one.settings, *other.settings}
        )

    def _words(self, side: Side) -> str:
        keys = dict.fromkeys(
            [*side.settings, *(key for name, key in self.learnt if name == side.name)]
        )
        found = [
            (f"{key}={side.settings[key]}" if key in side.settings else f"the usual {key}")
            + (f", {learnt[:19]}" if (learnt := self.learnt.get((side.name, key))) else "")
            for key in keys
        ]
        return f"{side.name} ({', '.join(found)})"

    def lifted(self, tool: _T) -> _T:
        """A tool that may be given something `Sided`: outside of a sample it is then used on every side."""
        return cast("_T", _Lifted(self, tool)) if self.heads else tool

    @contextlib.contextmanager
    def at(self, side: Side) -> Iterator[None]:
        """Let everything `Sided` be this side's, and its variables be set."""
        before, self.current = self.current, side
        try:
            with _environment(side.settings):
                yield
        finally:
            self.current = before

    def sampler(self, side: Side, sample: Callable[_P, _T]) -> Callable[_P, _T]:
        """A function that takes a sample of one side."""

        def take(*args: _P.args, **options: _P.kwargs) -> _T:
            __tracebackhide__ = True
            with self.at(side):
                return sample(*args, **options)

        return take


@contextlib.contextmanager
def _environment(settings: Mapping[str, str]) -> Iterator[None]:
    """Set a side's variables, and put its ``path`` before the search path."""
    wanted = {key[len(ENV) :]: text for key, text in settings.items() if key.startswith(ENV)}
    if (folder := settings.get("path")) is not None:
        wanted["PATH"] = os.pathsep.join((folder, os.environ.get("PATH", os.defpath)))
    before = {name: os.environ.get(name) for name in wanted}
    os.environ.update(wanted)
    try:
        yield
    finally:
        for name, text in before.items():
            if text is None:
                os.environ.pop(name, None)
            else:
                os.environ[name] = text


#: Equal values of these types are one value, whatever side it is from.
_PLAIN = (str, bytes, int, float, bool, type(None), tuple, frozenset, PurePath)


def _as_one(sides: Sides, values: Mapping[str, Any]) -> Any:
    """Values of all sides as one: the value itself where they are the same, else `Sided`."""
    first, *others = values.values()
    if all(each is first for each in others):
        return first
    if isinstance(first, _PLAIN) and all(
        type(each) is type(first) and each == first for each in others
    ):
        return first
    return Sided(sides, values)


class Sided:
    """A thing of each side: the current side's while there is one, else all of them together.

    Args:
        sides: of the run.
        things: by the name of their side.
    """

    __slots__ = ("_sides", "_things")
    _sides: Sides
    _things: Mapping[str, Any]

    def __init__(self, sides: Sides, things: Mapping[str, Any]) -> None:
        object.__setattr__(self, "_sides", sides)
        object.__setattr__(self, "_things", dict(things))

    def _of(self, side: Side) -> Any:
        return self._things[side.name]

    def _everywhere(self, do: Callable[[Side, Any], Any]) -> Any:
        """What a function returns for the current side's thing; outside of a sample, for every side's."""
        __tracebackhide__ = True
        sides = self._sides
        if (current := sides.current) is not None:
            sides.made_a_difference = True
            return do(current, self._of(current))
        found = {}
        for side in sides.all:
            with sides.at(side):
                found[side.name] = do(side, self._of(side))
        return _as_one(sides, found)

    def _alone(self, use: Callable[[Side, Any], Any]) -> Any:
        """What a function returns for the current side's thing, of which there has to be one."""
        __tracebackhide__ = True
        sides = self._sides
        if sides.current is None:
            raise DiffersBetweenSides(
                f"{self!r} differs between the sides of this gate, and is used outside of a sample: use it inside of "
                "what is given to claim(…)"
            )
        sides.made_a_difference = True
        return use(sides.current, self._of(sides.current))

    # An isinstance() check sees what it would see without a gate.
    @property  # type: ignore[misc]  # it cannot be set
    def __class__(self) -> Any:
        current = self._sides.current
        return type(self._of(current or self._sides.base))

    def __getattr__(self, name: str) -> Any:
        __tracebackhide__ = True
        return self._everywhere(lambda _, thing: getattr(thing, name))

    def __setattr__(self, name: str, value: Any) -> None:
        __tracebackhide__ = True
        self._everywhere(lambda side, thing: setattr(thing, name, side.of(value)))

    def __call__(self, *args: Any, **options: Any) -> Any:
        """Call it."""
        __tracebackhide__ = True

        def call(side: Side, thing: Any) -> Any:
            __tracebackhide__ = True
            return thing(
                *map(side.of, args), **{name: side.of(each) for name, each in options.items()}
            )

        return self._everywhere(call)

    def __enter__(self) -> Any:
        return self._everywhere(lambda _, thing: thing.__enter__())

    def __exit__(self, *exception: Any) -> Any:
        return self._everywhere(lambda _, thing: thing.__exit__(*exception))

    def __bool__(self) -> bool:
        found = self._everywhere(lambda _, thing: bool(thing))
        return bool(self._alone(lambda _, thing: bool(thing)) if type(found) is Sided else found)

    def __getitem__(self, key: Any) -> Any:
        return self._everywhere(lambda side, thing: thing[side.of(key)])

    def __repr__(self) -> str:
        if (current := self._sides.current) is not None:
            return repr(self._of(current))
        return "; ".join(f"{name}: {thing!r}" for name, thing in self._things.items())


class _Lifted:
    """A tool, which is the same on every side, and whatever it has that can be called.

    Args:
        sides: of the run.
        tool: what is called, with the things of one side.
    """

    __slots__ = ("_sides", "_tool")

    def __init__(self, sides: Sides, tool: Any) -> None:
        self._sides, self._tool = sides, tool

    @property  # type: ignore[misc]  # it cannot be set
    def __class__(self) -> Any:
        return type(self._tool)

    def __getattr__(self, name: str) -> Any:
        found = getattr(self._tool, name)
        return _Lifted(self._sides, found) if callable(found) else found

    def __call__(self, *args: Any, **options: Any) -> Any:
        """Use it, for each side if something that it is given, or calls, differs between them."""
        __tracebackhide__ = True
        sides, given = self._sides, (*args, *options.values())
        each_side = Sided(sides, dict.fromkeys((side.name for side in sides.all), self._tool))
        if any(type(each) is Sided for each in given):
            return each_side(*args, **options)
        if sides.current is not None or not any(map(callable, given)):
            return self._tool(*args, **options)
        # What it is given to call may start targets.
        before, sides.made_a_difference = sides.made_a_difference, False
        try:
            with sides.at(sides.base):
                found = {sides.base.name: self._tool(*args, **options)}
            if not sides.made_a_difference:
                return found[sides.base.name]
        finally:
            sides.made_a_difference = before
        for side in sides.heads:
            with sides.at(side):
                found[side.name] = self._tool(*args, **options)
        return _as_one(sides, found)


def _forwarded(use: Callable[..., Any]) -> Callable[..., Any]:
    """A method that needs one thing, of the current side."""

    def method(self: Sided, *args: Any) -> Any:
        __tracebackhide__ = True

        def call(side: Side, thing: Any) -> Any:
            __tracebackhide__ = True
            return use(thing, *map(side.of, args))

        return self._alone(call)

    return method


def _swapped(use: Callable[[Any, Any], Any]) -> Callable[[Any, Any], Any]:
    return lambda thing, other: use(other, thing)


_OPERATORS = ("add", "sub", "mul", "truediv", "floordiv", "mod", "pow")
_ALONE: Mapping[str, Callable[..., Any]] = {
    **{
        each.__name__: each for each in (str, format, len, iter, next, hash, int, float, round, abs)
    },
    **{name: getattr(operator, name) for name in ("eq", "ne", "lt", "le", "gt", "ge")},
    **{name: getattr(operator, name) for name in ("contains", "index", "neg", "pos")},
    **{name: getattr(operator, name) for name in _OPERATORS},
    **{f"r{name}": _swapped(getattr(operator, name)) for name in _OPERATORS},
    "fspath": os.fspath,
}
for _name, _use in _ALONE.items():
    setattr(Sided, f"__{_name}__", _forwarded(_use))
