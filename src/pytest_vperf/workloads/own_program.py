"""The common output format and parameters of our own programs: name and version first, ``checked: yes`` last."""

from __future__ import annotations

import math
import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar, Generic, TypeVar

from pytest_vperf.quantity import Quantity
from pytest_vperf.workloads.base import WORD, Output, ParseError

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from pytest_vperf.targets.base import Target
    from pytest_vperf.workloads.base import Reader, Workload
    from pytest_vperf.workloads.bench import Bench

R = TypeVar("R")


def implementation(reader: Reader) -> str:
    """The program's name and version, e.g. ``vperf-stream 1.0``.

    Raises:
        ParseError: it is missing, or the program does not confirm that its results were right.
    """
    name = reader.need(rf"^({re.escape(reader.tool)} [0-9]+\.[0-9]+)$", "name and version")
    reader.need(r"^checked: yes$", "word that the results were checked")
    return name[1]


def figure(reader: Reader, label: str) -> float:
    """The figure of a line ``label: number``; zero is invalid in all of them.

    Raises:
        ParseError: it is missing, or not a number.
    """
    match = reader.need(rf"^{re.escape(label)}: ({WORD})$", label)
    return reader.number(match[1], label, positive=True)


def version_of(tool: str, output: Output) -> str:
    """The version printed by ``--version``.

    Raises:
        ParseError: it is missing.
    """
    match = re.search(
        rf"^{re.escape(tool)} ([0-9]+\.[0-9]+)$", output.stdout, re.MULTILINE | re.ASCII
    )
    if match is None:
        raise ParseError(tool, "there is no version in what --version printed", output)
    return match[1]


def check_time(name: str, time: float, least: float, most: float) -> None:
    """Reject a run time that the programs would reject.

    Raises:
        ValueError: with the limits.
    """
    number = isinstance(time, (int, float)) and not isinstance(time, bool)
    if not number or not math.isfinite(time) or not least <= time <= most:
        raise ValueError(f"{name} is {time!r}, not a number of seconds from {least:g} to {most:g}")


@dataclass(frozen=True)
class TimedProgram:
    """The part of a workload that runs one of our programs for a time.

    Attributes:
        longest: the longest time that the program accepts, in s.
        time: how long to run, in s.
        warmup: time before that, in s, which does not count: a sample shorter than some 0.1 s would otherwise be
            affected by the start of the process, e.g. by an engine that is still busy.
    """

    tool: ClassVar[str]
    version_argv: ClassVar[Sequence[str]] = ("--version",)
    longest: ClassVar[float]

    time: float = 2.0
    warmup: float = 0.0

    def __post_init__(self) -> None:
        check_time("time", self.time, 0.01, self.longest)
        check_time("warmup", self.warmup, 0, 5)

    def argv(self, version: str) -> tuple[str, ...]:
        """See `Workload.argv`."""
        warmup = (f"--warmup={self.warmup:g}",) if self.warmup else ()
        return (f"--seconds={self.time:g}", *warmup)

    @property
    def timeout(self) -> float:
        """See `Workload.timeout`."""
        return 60.0 + 4 * (self.time + self.warmup)

    @classmethod
    def version_of(cls, output: Output) -> str:
        """See `Workload.version_of`."""
        return version_of(cls.tool, output)


def rate(reader: Reader, things: str) -> Quantity:
    """The rate in operation/s, higher is better, from the lines ``THINGS``, ``seconds`` and ``THINGS per second``.

    Raises:
        ParseError: a line is missing or not a number, or the three are inconsistent.
    """
    done = figure(reader, things)
    seconds = figure(reader, "seconds")
    found = figure(reader, f"{things} per second")
    # Printed with one decimal, and seconds with six.
    if abs(done / seconds - found) > 0.06 + found * 1e-6 / seconds:
        raise reader.error(f"{done:g} {things} in {seconds:g} s are not {found:g} a second")
    return Quantity(found, "operation/s", direction="higher")


class TimedTool(Generic[R]):
    """One of our programs, as the interface for tests.

    Args:
        bench: runs it.
    """

    workload: Callable[[float, float], Workload[R]]

    def __init__(self, bench: Bench) -> None:
        self._bench = bench

    def run(self, target: Target, *, time: float = 2.0, warmup: float = 0.0) -> R:
        """Run it for ``time`` seconds after ``warmup``, see `TimedProgram`; see `Bench.run` for the errors."""
        return self._bench.run(target, type(self).workload(time, warmup))
