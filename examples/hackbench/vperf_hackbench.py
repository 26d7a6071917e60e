"""hackbench, from Debian's package rt-tests: groups of processes exchange messages through sockets.

The time is hackbench's own, from the moment that all processes are there until the last one has ended, in seconds
with three decimals.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

from pytest_vperf import Quantity, Reader, Tool, check_whole

if TYPE_CHECKING:
    from collections.abc import Sequence

    from pytest_vperf import Bench, Output, Target


@dataclass(frozen=True)
class HackbenchRun:
    """One run: in each group 20 processes send ``loops`` messages to each of 20 others."""

    tool: ClassVar[str] = "hackbench"
    version_argv: ClassVar[Sequence[str]] = ("--help",)

    groups: int = 2
    loops: int = 50

    def __post_init__(self) -> None:
        check_whole("groups", self.groups, most=100)
        check_whole("loops", self.loops, most=100_000)

    def argv(self, version: str) -> tuple[str, ...]:
        """The arguments after the program."""
        return (f"--groups={self.groups}", f"--loops={self.loops}")

    @property
    def timeout(self) -> float:
        """Seconds: emulated processors pass some 5000 messages a second."""
        return 60.0 + self.groups * self.loops * 400 / 5000

    def parse(self, output: Output) -> Quantity:
        """The time of the run."""
        reader = Reader(self.tool, output)
        tasks = reader.need(r"^Running in process mode .*\(== (\S+) tasks\)$", "number of tasks")
        if reader.whole(tasks[1], "the number of tasks") != 40 * self.groups:
            raise reader.error(f"its tasks are not those of {self.groups} groups")
        time = reader.need(r"^Time: (\S+)$", "time")
        return reader.quantity(time[1], "the time", "s", "lower", positive=True)

    @classmethod
    def version_of(cls, output: Output) -> str:
        """The version, from the first line of the help."""
        return Reader(cls.tool, output).need(r"^hackbench V (\S+)$", "version")[1]


class Hackbench:
    """What the fixture ``hackbench`` gives."""

    def __init__(self, bench: Bench) -> None:
        self._bench = bench

    def run(self, target: Target, *, groups: int = 2, loops: int = 50) -> Quantity:
        """The time of a run; see `HackbenchRun`."""
        return self._bench.run(target, HackbenchRun(groups, loops))


def pytest_vperf_tools() -> list[Tool]:
    """Add the tool, and its package to the image that targets have."""
    summary = "hackbench: ``hackbench.run(target, groups=2)``."
    return [Tool("hackbench", Hackbench, packages=("rt-tests",), summary=summary)]
