"""What every workload is: the parameters of one run of a tool, its command line, and its parser.

A workload is a frozen dataclass: its fields are the tool's parameters. It starts nothing. `Bench` runs it in a
target; the parser can be given any text, from any version of the tool and from hostile hands: it returns a result
whose every figure was in the text, or raises `ParseError` (design rule 4).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar, Protocol, TypeVar

from pytest_vperf import foreign_text

if TYPE_CHECKING:
    from collections.abc import Sequence

    from pytest_vperf.targets.base import Completed

R_co = TypeVar("R_co", covariant=True)

#: How much of an output an error shows.
_LINES, _WIDTH = 6, 160


@dataclass(frozen=True)
class Output:
    """What a run of a tool left.

    Attributes:
        stdout: as text; bytes that are not UTF-8 are replaced.
        stderr: likewise.
        version: the tool's own, e.g. ``1.0.20``; empty where it was not asked.
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
    """An output does not have what it should. Nothing is made up in its place.

    Attributes:
        tool: which tool, e.g. ``sysbench``.
        version: its version; empty where it was not asked.
        problem: what is missing or makes no sense.
    """

    def __init__(self, tool: str, problem: str, output: Output) -> None:
        self.tool, self.version, self.problem = tool, output.version, problem
        name = f"{tool} {output.version}".rstrip()
        super().__init__(f"{name}: {problem}{_excerpt(output)}")


def _excerpt(output: Output) -> str:
    for name, text in (("printed", output.stdout), ("said on standard error", output.stderr)):
        lines = [line.rstrip() for line in text.splitlines() if line.strip()]
        if lines:
            shown = [foreign_text.lines(line[:_WIDTH]) for line in lines[:_LINES]]
            more = ["…"] if len(lines) > _LINES else []
            return f"; it {name}:\n" + "\n".join(f"    {line}" for line in shown + more)
    return "; it printed nothing"


class Unsupported(Exception):
    """The tool that is there cannot do what was asked, for a reason that the message gives: its version, mostly."""


class Workload(Protocol[R_co]):
    """One run of a tool, as a frozen dataclass of its parameters.

    The constructor refuses parameters that make no sense with a `ValueError` that names the parameter.

    One that times nothing says so in a class variable, ``times = False``: the target's clock is not checked for it.

    Attributes:
        tool: the program, as it is called in the image.
        version_argv: what makes the program print its version.
    """

    tool: ClassVar[str]
    version_argv: ClassVar[Sequence[str]]

    def argv(self, version: str) -> tuple[str, ...]:
        """The arguments after the program.

        Args:
            version: of the tool that will run, as `version_of` has it.

        Raises:
            Unsupported: this version cannot do it.
        """
        ...

    @property
    def timeout(self) -> float:
        """Seconds after which the run has failed: several times what it should take, and at least a minute."""
        ...

    def parse(self, output: Output) -> R_co:
        """Read what a run printed.

        Returns:
            A frozen dataclass whose figures are `Quantity` objects with a direction (``better``); ``None`` only
            in fields whose docstring says which versions do not print them.

        Raises:
            ParseError: the output does not have what it should, or a figure is negative, infinite or absurd.
        """
        ...

    @classmethod
    def version_of(cls, output: Output) -> str:
        """Read the tool's version from what ``version_argv`` printed.

        Raises:
            ParseError: it is not there.
        """
        ...
