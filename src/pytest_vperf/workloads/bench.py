"""Running a workload in a target, after a check of the target's clock, and recording which program did it.

Tools time themselves by the machine's own clock (design rule 7). An emulated or badly paravirtualised clock can run
slow while the machine is busy or halted, which makes every rate measured with it wrong by as much. So it is compared
with the host's monotonic clock before the first tool runs.
"""

from __future__ import annotations

import re
import time
from typing import TYPE_CHECKING, TypeVar

from pytest_vperf.targets.base import TargetError, Unavailable
from pytest_vperf.targets.kinds import KINDS
from pytest_vperf.workloads.base import Output, Unsupported, Workload

if TYPE_CHECKING:
    from collections.abc import Iterable

    from pytest_vperf.targets.base import Program, Target
    from pytest_vperf.targets.kinds import TargetKind
    from pytest_vperf.targets.scope import Scope


#: How far a machine's clock may be off: the smallest tolerance that claims are judged with.
TOLERANCE = 0.02
#: Seconds between two readings. A reading is uncertain by its duration, some 20 ms in an emulated machine.
_SPAN = 2.0
# Keeps the machine's processor busy between the readings, because some clocks only lose ticks under load. Then prints
# nanoseconds since 1970 (GNU date).
_BUSY = "end=$(($(date +%s%N) + {nanoseconds})); while [ $(date +%s%N) -lt $end ]; do :; done; date +%s%N"


class WrongClock(TargetError):
    """A machine's clock runs at another rate than the host's: times measured in it cannot be trusted."""


def compare_clocks(target: Target) -> float:
    """Compare a machine's clock with the host's.

    Returns:
        The rate of the machine's clock: seconds in it for one second on the host, with the uncertainty of a reading.

    Raises:
        WrongClock: it is off by more than `TOLERANCE` and the readings' uncertainty.
        CommandFailed: the machine has no ``sh`` or ``date``.
    """
    first, early = _read(target)
    target.run(["sh", "-c", _BUSY.format(nanoseconds=round(_SPAN * 1e9))], timeout=60.0)
    second, late = _read(target)
    # Each reading was taken at some moment between its request and its answer.
    least, most = late[0] - early[1], late[1] - early[0]
    inside = second - first
    low, high = inside / most, inside / least
    if low > 1 + TOLERANCE or high < 1 - TOLERANCE:
        raise WrongClock(
            f"the clock of {target.name} runs at {low:.3f} to {high:.3f} of the host's: no time measured in it is "
            "believed",
            target=target.name,
        )
    return (low + high) / 2


def _read(target: Target) -> tuple[float, tuple[float, float]]:
    """Seconds by the machine's clock, and the host's clock before and after."""
    before = time.monotonic()
    text = target.run(["date", "+%s%N"], timeout=30.0).text.strip()
    after = time.monotonic()
    if not re.fullmatch("[0-9]{1,25}", text):
        raise TargetError(
            f"{target.name}: date +%s%N says {text[:60]!r}, no nanoseconds", target=target.name
        )
    return int(text) / 1e9, (before, after)


R = TypeVar("R")

#: Decimal points and English messages, whatever the machine's language.
ENVIRONMENT = {"LC_ALL": "C", "LANG": "C", "TZ": "UTC"}


class Bench:
    """Runs workloads in the targets of one test.

    Args:
        scope: the test's; notes which tool ran where, for the record and for comparisons.
        kinds: of targets, which say whether a target has a clock of its own.
    """

    def __init__(self, scope: Scope, kinds: Iterable[TargetKind] = KINDS) -> None:
        self._scope = scope
        self._clocks = frozenset(kind.name for kind in kinds if kind.own_clock)
        self._versions: dict[str, str] = {}
        self._checked: dict[Target, float] = {}

    def run(self, target: Target, workload: Workload[R]) -> R:
        """Run a workload to its end and parse its output.

        Raises:
            Unavailable: the target does not have the tool, or its version cannot do this.
            CommandFailed: the tool ended with a status other than 0; with its output.
            ParseError: its output is invalid.
            TimedOut: it took longer than `Workload.timeout`.
            WrongClock: the target's own clock cannot be trusted.
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
        """Compare a machine's clock with the host's, once.

        Raises:
            WrongClock: it is off.
        """
        if target not in self._checked and target.facts().kind in self._clocks:
            self._checked[target] = compare_clocks(target)

    def version(self, target: Target, program: Program, workload: Workload[R]) -> str:
        """The tool's version; requested once per program file, and noted for the target."""
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
