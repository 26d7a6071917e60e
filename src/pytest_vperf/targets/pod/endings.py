"""How a pod's machine failed, for those who have to tell one failure from another by more than its words.

Whether a pod that did not start, or did nothing afterwards, had too little memory, or failed for another reason.

Too little memory has many faces: QEMU cannot place the initramfs, the kernel's decompressor has no room and hangs or
resets, the kernel panics, the agent gets no memory, the out-of-memory killer takes the container. Whatever is none of
these - a QEMU that was killed, an image without the command, no firmware - says nothing about a size.
"""

from __future__ import annotations

import re

from pytest_vperf.targets.agent.wire import Failure, WireError
from pytest_vperf.targets.base import CannotStart, CommandFailed, TargetError, TimedOut


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


#: What the parts say, each with what it means. The kernel's are of kernel/panic.c, mm/oom_kill.c and
#: arch/x86/boot/compressed/misc.c; "Cannot allocate memory" is ENOMEM's text (errno(3)).
_SIGNS = (
    (r"Kernel panic - not syncing: (?P<words>[^\r\n]*)", "panic"),
    (r"(?P<words>initrd is too large[^\r\n]*)", "no boot"),
    (r"(?P<words>Out of memory[^\r\n]*)", "out of memory"),
    (r"(?P<words>[^\r\n]*Cannot allocate memory)", "out of memory"),
    (r"(?P<words>[^\r\n]*-- System halted)", "no boot"),
)
#: A shell's status of a process that was killed, as the out-of-memory killer does.
_KILLED = 137
_ROOM = 120


def too_little(error: TargetError, console: str = "") -> str | None:
    """What was seen of too little memory, in a few words: ``panic: …``, ``out of memory: …``, ``no boot: …``.

    Args:
        error: of the start, or of a command in the pod.
        console: what the pod's machine had printed, where the error does not have it.

    Returns:
        ``None`` where the error is another one.
    """
    # Killed by somebody else; the shell beside a QEMU on another machine has 128 + N.
    if isinstance(error, MachineEnded) and not 0 <= (error.status or 0) <= 128:
        return None
    said = f"{getattr(error, 'console', '')}{console}\n{error}"
    # Before its machine runs QEMU speaks of the host's memory, and of what does not fit into the machine's.
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
