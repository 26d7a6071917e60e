"""How a pod's machine failed, for those who have to tell one failure from another by more than its words."""

from __future__ import annotations

from pytest_vperf.targets.agent.wire import Failure, WireError
from pytest_vperf.targets.base import CannotStart, TimedOut


class MachineEnded(CannotStart):
    """QEMU ended, or was ended, before its machine did what was waited for.

    Attributes:
        phase: what it was in.
        status: QEMU's, below 0 for a signal; ``None`` where it is not known.
        console: what its machine had printed on the serial port, the last 64 KiB.
    """

    def __init__(
        self, message: str, *, target: str, phase: str, status: int | None, console: str
    ) -> None:
        super().__init__(message, target=target)
        self.phase = phase
        self.status = status
        self.console = console


class NotReady(TimedOut):
    """The machine did not do in time what was waited for.

    Attributes:
        phase: what it was in.
        console: what it had printed, as above.
    """

    def __init__(self, message: str, *, target: str, phase: str, console: str) -> None:
        super().__init__(message, target=target)
        self.phase = phase
        self.console = console


def last_words(log: str, console: str) -> str:
    """What QEMU and the machine's console said last, for the end of an error message."""
    end = console[-600:].replace("\r", "").strip()
    lines = f"\nQEMU said: {log}" if log else ""
    return lines + (f"\nits console ended with:\n{end}" if end else "; its console is empty")


def how_it_ended(status: int | None, detail: str = "") -> str:
    """The end of a QEMU in words: its status, below 0 for a signal; ``None`` where it has not ended."""
    if status is None:
        return detail or "closed its channels"
    return f"was killed by signal {-status}" if status < 0 else f"ended with status {status}"


def no_container(name: str, failure: bytes) -> CannotStart:
    """The error of a container that the agent could not start, by the payload of its frame FAILED."""
    try:
        why = str(Failure.of(failure))
    except WireError as error:
        why = str(error)
    return CannotStart(f"{name}: the container did not start: {why}", target=name)
