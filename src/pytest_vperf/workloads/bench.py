"""Runs a workload in a target, and notes with which bytes it did."""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeVar

from pytest_vperf.targets.base import Unavailable
from pytest_vperf.workloads import guest_clock
from pytest_vperf.workloads.base import Output, Unsupported, Workload

if TYPE_CHECKING:
    from pytest_vperf.targets.base import Target
    from pytest_vperf.targets.program import Program
    from pytest_vperf.targets.scope import Scope

R = TypeVar("R")

#: Numbers are printed with a point, and messages in English, whatever the machine's language is.
ENVIRONMENT = {"LC_ALL": "C", "LANG": "C", "TZ": "UTC"}


class Bench:
    """Runs workloads in the targets of one test.

    Args:
        scope: the test's; it keeps which tool ran where, for the record and for comparisons.
    """

    def __init__(self, scope: Scope) -> None:
        self._scope = scope
        self._versions: dict[str, str] = {}
        self._checked: dict[Target, float] = {}

    def run(self, target: Target, workload: Workload[R]) -> R:
        """Run a workload to its end and read what it printed.

        Raises:
            Unavailable: the target does not have the tool, or not in a version that can do it.
            CommandFailed: the tool ended with a status other than 0; with its words.
            ParseError: it printed something else than it should.
            TimedOut: it took longer than `Workload.timeout`.
            WrongClock: the target has a clock of its own that cannot be believed.
        """
        program = target.program(workload.tool)
        version = self.version(target, program, workload)
        if getattr(workload, "times", True):
            self.check_clock(target)
        try:
            arguments = workload.argv(version)
        except Unsupported as error:
            raise Unavailable(f"{program.name} {version}: {error}", target=target.name) from error
        completed = target.run(
            [*program.argv, *arguments], env=ENVIRONMENT, timeout=workload.timeout
        )
        return workload.parse(Output.of(completed, version))

    def check_clock(self, target: Target) -> None:
        """Hold the clock of a machine against the host's, once; see `pytest_vperf.workloads.guest_clock`.

        Raises:
            WrongClock: it is off.
        """
        if target not in self._checked and target.facts().kind in guest_clock.KINDS:
            self._checked[target] = guest_clock.check(target)

    def version(self, target: Target, program: Program, workload: Workload[R]) -> str:
        """The tool's version; asked once for the same bytes, and noted with them for the target."""
        if program.sha256 not in self._versions:
            # Some tools end with an error status when asked for their version.
            asked = target.run(
                [*program.argv, *workload.version_argv],
                env=ENVIRONMENT,
                timeout=60.0,
                check=False,
            )
            self._versions[program.sha256] = workload.version_of(Output.of(asked))
        version = self._versions[program.sha256]
        self._scope.note_tool(target.name, program, version)
        return version
