"""Workloads: the parameters of one run of a tool, its command line, and its parser.

A workload is a frozen dataclass: its fields are the tool's parameters. It starts nothing; `Bench` runs it in a
target. The parser accepts any text, from any version of the tool and from hostile sources: it returns a result whose
figures all were in the text, or raises `ParseError` (design rule 4).

Parameters are checked before a tool gets them. Figures are read strictly: whatever is not certainly the number that
the tool meant is a `ParseError`.

Python's `float()` accepts ``inf``, ``nan``, ``1_000``, `` 7 `` and digits of any script, and silently rounds
``1e-400`` to zero; a pattern that finds the first of two blocks hides that two runs were mixed. None of that happens
here.
"""

from __future__ import annotations

import json
import math
import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar, Literal, Protocol, TypeVar

from pytest_vperf import foreign_text
from pytest_vperf.quantity import Quantity

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from pytest_vperf.targets.base import Completed


#: Names, and IPv4 and IPv6 addresses, with a zone; nothing that a tool could mistake for an option.
_ADDRESS = re.compile(r"[0-9A-Za-z.:_%-]+")


def check_whole(name: str, value: object, least: int = 1, most: int | None = None) -> None:
    """Refuse a parameter that is not a whole number within its bounds.

    Raises:
        ValueError: with its name.
    """
    if (
        isinstance(value, bool)
        or not isinstance(value, int)
        or value < least
        or (most is not None and value > most)
    ):
        bounds = f"of at least {least}" if most is None else f"from {least} to {most}"
        raise ValueError(f"{name} is {value!r}, not a whole number {bounds}")


def check_address(name: str, value: str) -> None:
    """Refuse a parameter that is not the name or address of a host.

    Raises:
        ValueError: with its name.
    """
    if not _ADDRESS.fullmatch(value) or value.startswith("-"):
        raise ValueError(f"{name} is {value!r}, not an address")


def release(version: str) -> tuple[int, int]:
    """The first two numbers of a version; one without numbers, as of a build from a repository, counts as new."""
    match = re.match(r"([0-9]{1,9})\.([0-9]{1,9})", version)
    return (int(match[1]), int(match[2])) if match else (99, 0)


R_co = TypeVar("R_co", covariant=True)

#: Most lines of an output, and characters of a line, to show in an error.
_LINES, _WIDTH = 6, 160


@dataclass(frozen=True)
class Output:
    """The output of one run of a tool.

    Attributes:
        stdout: as text; bytes that are not UTF-8 are replaced.
        stderr: likewise.
        version: the tool's own, e.g. ``1.0.20``; empty if it was not requested.
    """

    stdout: str
    stderr: str = ""
    version: str = ""

    @classmethod
    def of(cls, completed: Completed, version: str = "") -> Output:
        """The output of a command that ran in a target."""
        return cls(
            completed.stdout.decode("utf-8", "replace"),
            completed.stderr.decode("utf-8", "replace"),
            version,
        )


class ParseError(Exception):
    """An output lacks a figure, or has an invalid one.

    Attributes:
        tool: which tool, e.g. ``sysbench``.
        version: its version; empty if it was not requested.
        problem: what is missing or invalid.
    """

    def __init__(self, tool: str, problem: str, output: Output) -> None:
        self.tool, self.version, self.problem = tool, output.version, problem
        name = f"{tool} {output.version}".rstrip()
        super().__init__(f"{name}: {problem}{_excerpt(output)}")


def _excerpt(output: Output) -> str:
    """The end of what was printed, where a tool says why it stopped, and of what was said on standard error."""
    parts = []
    for name, text in (("printed", output.stdout), ("said on standard error", output.stderr)):
        lines = [line.rstrip() for line in text.splitlines() if line.strip()]
        if lines:
            shown = [foreign_text.lines(line[:_WIDTH]) for line in lines[-_LINES:]]
            before = ["…"] if len(lines) > _LINES else []
            parts.append(f"it {name}:\n" + "\n".join(f"    {line}" for line in before + shown))
    return "; " + ("\n".join(parts) if parts else "it printed nothing")


class Unsupported(Exception):
    """The installed tool cannot do what was requested; says why, usually because of its version."""


class Workload(Protocol[R_co]):
    """One run of a tool, as a frozen dataclass of its parameters.

    The constructor rejects invalid parameters with a `ValueError` that names the parameter. A workload that times
    nothing has the class variable ``times = False``: the target's clock is then not checked for it.

    Attributes:
        tool: the program's name in the image.
        version_argv: arguments that make it print its version.
    """

    tool: ClassVar[str]
    version_argv: ClassVar[Sequence[str]]

    def argv(self, version: str) -> tuple[str, ...]:
        """The arguments after the program.

        Args:
            version: of the tool that will run, as returned by `version_of`.

        Raises:
            Unsupported: this version cannot do it.
        """
        ...

    @property
    def timeout(self) -> float:
        """Seconds after which the run has failed: several times its expected duration, and at least a minute."""
        ...

    def parse(self, output: Output) -> R_co:
        """Read what a run printed.

        Returns:
            A frozen dataclass whose figures are `Quantity` objects with a direction (``better``); ``None`` only
            in fields whose docstring says which versions do not print them.

        Raises:
            ParseError: the output is incomplete, or a figure is negative, infinite or absurd.
        """
        ...

    @classmethod
    def version_of(cls, output: Output) -> str:
        """Read the tool's version from what ``version_argv`` printed.

        Raises:
            ParseError: it is not there.
        """
        ...


#: One decimal number, as C's printf("%d"), ("%f"), ("%e") and ("%g") print it in the C locale.
NUMBER = r"[0-9]+(?:\.[0-9]+)?(?:[eE][+-]?[0-9]{1,3})?"

#: The text in the place of a number: matched as a whole, so that ``1,5`` and ``12x`` are rejected.
WORD = r"\S+"

_NUMBER = re.compile(NUMBER)
_SIGNED = re.compile(rf"-{NUMBER}|-?(?:inf|infinity|nan)", re.IGNORECASE)

#: No computer reaches 10^18 of anything these tools count or measure in a second; a greater figure is broken.
ABSURD = 1e18

Direction = Literal["lower", "higher", ""]


class Reader:
    """Reads figures from one output, and raises `ParseError` with the tool's name if one is missing.

    Args:
        tool: the tool's name, for errors.
        output: the tool's output.
    """

    def __init__(self, tool: str, output: Output) -> None:
        self.tool, self.output = tool, output

    def error(self, problem: str) -> ParseError:
        """An error to raise, with the output's last lines."""
        return ParseError(self.tool, problem, self.output)

    def find(self, pattern: str, what: str) -> re.Match[str] | None:
        """The only match of a pattern in standard output; ``None`` if there is none.

        The pattern has the flags ``re.MULTILINE`` and ``re.ASCII``: ``^`` and ``$`` match at a line's ends.

        Raises:
            ParseError: there are several: the output is of two runs, or is not what it seems.
        """
        found = list(re.finditer(pattern, self.text, re.MULTILINE | re.ASCII))
        if len(found) > 1:
            raise self.error(f"there is more than one {what} in the output")
        return found[0] if found else None

    def need(self, pattern: str, what: str) -> re.Match[str]:
        """Like `find`, for text that every output has.

        Raises:
            ParseError: it is missing, or occurs more than once.
        """
        match = self.find(pattern, what)
        if match is None:
            raise self.error(f"there is no {what} in the output")
        return match

    @property
    def text(self) -> str:
        """Standard output, with Unix line ends."""
        return self.output.stdout.replace("\r\n", "\n")

    def number(self, text: str, what: str, *, positive: bool = False) -> float:
        """The value of a text that is one decimal number.

        Args:
            text: the characters of the number.
            what: its name, for the error.
            positive: whether zero is invalid, too.

        Raises:
            ParseError: it is something else; or negative, infinite, too large or too small to be true.
        """
        if _NUMBER.fullmatch(text) is None:
            if _SIGNED.fullmatch(text):
                raise self.error(f"{what} is {text}, which no run can have")
            raise self.error(f"{what} is {text[:40]!r}, which is not a number")
        value = float(text)
        # A number too small for a float must not become a zero that the tool did not print.
        underflow = value == 0 and re.search("[1-9]", re.split("[eE]", text)[0]) is not None
        if underflow or not value <= ABSURD:
            raise self.error(f"{what} is {text[:40]}, which no run can have")
        return self.checked(value, what, positive=positive)

    def whole(self, text: str, what: str, *, positive: bool = False) -> int:
        """The value of a text that is one whole number of ASCII digits.

        Raises:
            ParseError: as for `number`.
        """
        value = self.number(text, what, positive=positive)
        if not text.isdigit():
            raise self.error(f"{what} is {text[:40]}, which is not a whole number")
        # A float is exact up to 2^53; beyond, the digits are read again.
        return int(text) if value >= 2**53 else int(value)

    def quantity(
        self, text: str, what: str, unit: str, direction: Direction = "", *, positive: bool = False
    ) -> Quantity:
        """A number with the unit that the tool's format has in this place.

        Raises:
            ParseError: as for `number`.
        """
        return Quantity(self.number(text, what, positive=positive), unit, direction=direction)

    def checked(self, value: float, what: str, *, positive: bool = False) -> float:
        """A figure computed from others, or read from JSON, if it is finite, not negative, and not absurd.

        Raises:
            ParseError: it is something else.
        """
        if not math.isfinite(value) or value < 0 or value > ABSURD:
            raise self.error(f"{what} is {value!r}, which no run can have")
        if positive and value == 0:
            raise self.error(f"{what} is 0, which no run can have")
        return value

    def json_number(self, value: object, what: str, *, positive: bool = False) -> float:
        """A number from a JSON document (see `json_document`); ``true`` and ``"1"`` are not numbers.

        Raises:
            ParseError: it is something else; or as for `number`.
        """
        if isinstance(value, bool) or not isinstance(value, (int, float)):
            raise self.error(f"{what} is {json.dumps(value)[:40]}, which is not a number")
        if isinstance(value, int) and abs(value) > ABSURD:
            raise self.error(f"{what} is {str(value)[:40]}, which no run can have")
        return self.checked(float(value), what, positive=positive)

    def json_document(self, text: str) -> Mapping[str, Any]:
        """A JSON object; unlike Python's reader, rejects NaN, Infinity, numbers beyond a float, and duplicate keys.

        Raises:
            ParseError: it is not such an object.
        """
        try:
            document = json.loads(
                text,
                parse_constant=_refuse,
                parse_float=_finite,
                parse_int=_whole,
                object_pairs_hook=_unique,
            )
        except (ValueError, RecursionError) as error:
            raise self.error(f"its JSON cannot be read: {error or 'too deep'}") from None
        if not isinstance(document, dict):
            raise self.error("its JSON is not an object")
        return document


def _refuse(constant: str) -> float:
    raise ValueError(f"{constant} is not a number")


def _finite(text: str) -> float:
    value = float(text)
    if not math.isfinite(value) or (value == 0 and re.search("[1-9]", re.split("[eE]", text)[0])):
        raise ValueError(f"{text[:40]} is beyond the range of a number")
    return value


def _whole(text: str) -> int:
    if len(text) > 25:
        raise ValueError(f"{text[:40]} is beyond the range of a number")
    return int(text)


def _unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    document = dict(pairs)
    if len(document) != len(pairs):
        twice = next(key for key, _ in pairs if sum(key == other for other, _ in pairs) > 1)
        raise ValueError(f"{twice[:40]!r} is there twice")
    return document
