"""How a pod's machine failed, and whether too little memory was the reason.

Too little memory shows in many ways: QEMU cannot place the initramfs, the kernel's decompressor runs out of room and
hangs or resets, the kernel panics, the agent's allocations fail, the out-of-memory killer ends the container. All
other failures - QEMU was killed, the image lacks the command, no firmware - say nothing about memory.
"""

from __future__ import annotations

import re

from pytest_vperf.targets.agent.wire import Failure, WireError
from pytest_vperf.targets.base import CannotStart, CommandFailed, TargetError, TimedOut


class MachineEnded(CannotStart):
    """QEMU ended, or was ended, before the awaited event.

    Attributes:
        phase: the one it ended in.
        status: QEMU's, below 0 for a signal; ``None`` if unknown.
        console: the last 64 KiB of the serial port's output.
    """

    def __init__(
        self, message: str, *, target: str, phase: str, status: int | None, console: str
    ) -> None:
        super().__init__(message, target=target)
        self.phase = phase
        self.status = status
        self.console = console


class NotReady(TimedOut):
    """The awaited event did not happen in time.

    Attributes:
        phase: the one it was in.
        console: the last 64 KiB of the serial port's output.
    """

    def __init__(self, message: str, *, target: str, phase: str, console: str) -> None:
        super().__init__(message, target=target)
        self.phase = phase
        self.console = console


def last_words(log: str, console: str) -> str:
    """The end of QEMU's and the console's output, to end an error message with."""
    end = console[-600:].replace("\r", "").strip()
    lines = f"\nQEMU said: {log}" if log else ""
    return lines + (f"\nits console ended with:\n{end}" if end else "; its console is empty")


def how_it_ended(status: int | None, detail: str = "") -> str:
    """How QEMU ended, in words. Its status is below 0 for a signal, and ``None`` if it has not ended."""
    if status is None:
        return detail or "closed its channels"
    return f"was killed by signal {-status}" if status < 0 else f"ended with status {status}"


def no_container(name: str, failure: bytes) -> CannotStart:
    """The error for a container that the agent could not start, from the payload of its FAILED frame."""
    try:
        why = str(Failure.of(failure))
    except WireError as error:
        why = str(error)
    return CannotStart(f"{name}: the container did not start: {why}", target=name)


#: Messages and what each means. The kernel's are from kernel/panic.c, mm/oom_kill.c and
#: arch/x86/boot/compressed/misc.c; "Cannot allocate memory" is the text of ENOMEM (errno(3)).
_SIGNS = (
    (r"Kernel panic - not syncing: (?P<words>[^\r\n]*)", "panic"),
    (r"(?P<words>initrd is too large[^\r\n]*)", "no boot"),
    (r"(?P<words>Out of memory[^\r\n]*)", "out of memory"),
    (r"(?P<words>[^\r\n]*Cannot allocate memory)", "out of memory"),
    (r"(?P<words>[^\r\n]*-- System halted)", "no boot"),
)
#: A shell's status for a process ended by SIGKILL, as the out-of-memory killer sends.
_KILLED = 137
_ROOM = 120


def too_little(error: TargetError, console: str = "") -> str | None:
    """The sign of too little memory, in a few words: ``panic: …``, ``out of memory: …``, ``no boot: …``.

    Args:
        error: of the start, or of a command in the pod.
        console: the machine's output, if the error does not have it.

    Returns:
        ``None`` if the error has another reason.
    """
    # Killed by somebody else; on another machine, the shell beside QEMU reports 128 + N.
    if isinstance(error, MachineEnded) and not 0 <= (error.status or 0) <= 128:
        return None
    said = f"{getattr(error, 'console', '')}{console}\n{error}"
    # Before the machine runs, QEMU's messages are about the host's memory, except that the initramfs may not fit.
    of_qemu = isinstance(error, MachineEnded) and error.phase == "process"
    for pattern, meaning in _SIGNS:
        if of_qemu and meaning != "no boot":
            continue
        if found := re.search(pattern, said):
            words = re.sub(r"^\[ *[0-9.]+\] *", "", found["words"].strip())
            return f"{meaning}: {words[:_ROOM]}"
    if isinstance(error, NotReady):
        if error.phase == "process":
            return None
        return f"no boot: it never left its phase {error.phase!r}"
    if isinstance(error, MachineEnded):
        if error.status != 0 or error.phase == "process":
            return None
        return f"no boot: the machine reset itself in the phase {error.phase!r}"
    if isinstance(error, CommandFailed):
        killed = error.completed.returncode == _KILLED
        return "out of memory: a command was killed" if killed else None
    if isinstance(error, TimedOut):
        return "out of memory: it starts, and a command in it does not end"
    if f"with status {_KILLED}" in str(error):
        return "out of memory: the container's process was killed"
    return None
