"""How far a host may be filled: number of targets, their memory, and the host's reserve.

Why a host was filled no further: what an error of a start, or the watch over the host's memory, says.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from pytest_vperf.machine.procfile import text
from pytest_vperf.quantity import format_number
from pytest_vperf.targets.base import TargetError, TimedOut

#: What the host keeps unless somebody says otherwise: so many bytes, or this share of its memory where that is less.
_RESERVE, _SHARE = 512 << 20, 1 / 8


@dataclass(frozen=True)
class Bounds:
    """The bounds of a filling; ``None`` leaves a bound to the host.

    Attributes:
        most: how many targets.
        memory: bytes that all of them may take from the host.
        floor: bytes that the host keeps available.

    Raises:
        ValueError: one is no whole number, or less than there can be.
    """

    most: int | None = None
    memory: int | None = None
    floor: int | None = None

    def __post_init__(self) -> None:
        for name, least in (("most", 1), ("memory", 1), ("floor", 0)):
            value = getattr(self, name)
            if value is None:
                continue
            if not isinstance(value, int) or isinstance(value, bool) or value < least:
                raise ValueError(
                    f"a host cannot be filled with {name} = {value!r}: a whole number from {least} on"
                )


def available() -> int:
    """Bytes of this host's memory that something new could have (``MemAvailable`` of proc(5)).

    Raises:
        TargetError: the kernel does not tell.
    """
    return _meminfo("MemAvailable")


def reserve(total: int | None = None) -> int:
    """Bytes that a host keeps available by default.

    Args:
        total: its memory; ``None``: of this host.
    """
    return round(min(_RESERVE, (_meminfo("MemTotal") if total is None else total) * _SHARE))


def in_words(size: float) -> str:
    """Bytes in a readable unit: ``5.7 GiB``."""
    unit, factor = ("GiB", 1 << 30) if abs(size) >= 1 << 30 else ("MiB", 1 << 20)
    return f"{format_number(size / factor)} {unit}"


def _meminfo(name: str) -> int:
    for line in text(Path("/proc/meminfo")).splitlines():
        key, _, value = line.partition(":")
        if key == name:
            return int(value.split()[0]) * 1024
    raise TargetError(f"/proc/meminfo has no {name}")


#: What ends a filling:
#:
#:     allocation  a start was refused memory ("Cannot allocate memory")
#:     oom         the kernel ended a target's process, because their control group had no memory left
#:     budget      the host has lost as much memory as was allowed, in and out of that group
#:     floor       the host has no more than the reserve available
#:     ports       no tap device, bridge port or address is left
#:     addresses   the run's own network, which is small, has none left
#:     resource    another limit of the host: processes, open files, space of a disk
#:     most        as many as were allowed run
#:     slow        a start was not ready within its time limit
Kind = Literal[
    "allocation", "oom", "budget", "floor", "ports", "addresses", "resource", "most", "slow"
]

#: How the field says it. QEMU: softmmu/physmem.c and net/tap-linux.c; libvirt and runc pass the words of strerror(3)
#: on; libxl: tools/libs/light; Go, in which runc is: src/runtime/os_linux.go; the kernel's bridge has 1023 ports
#: (net/bridge/br_private.h) and then says EXFULL.
_WORDS: tuple[tuple[Kind, str], ...] = (
    (
        "ports",
        r"exchange full|could not configure /dev/net/tun|TUNSETIFF|no available IPv[46] addr",
    ),
    ("ports", r"a tap cannot be made|unable to create tap"),
    ("addresses", r"all addresses of \S+ are in use by this run"),
    (
        "allocation",
        r"cannot allocate memory|out of memory|not enough (free )?memory|ENOMEM|failed to allocate",
    ),
    ("allocation", r"was OOM-killed"),
    ("resource", r"resource temporarily unavailable|too many open files|no space (is )?left"),
    ("resource", r"can't start new thread|failed to create new OS thread|quota exceeded"),
    # An engine's words for a request without an answer, see `pytest_vperf.targets.container.address`.
    ("slow", r"does not answer any more: it took too long"),
)
#: Where a message goes on with what a machine said itself: its memory, its threads and its disk are not the host's.
_OF_THE_MACHINE = re.compile(
    r"\nits console ended with:|the container did not start:|its container ended at once|its agent could not"
)


@dataclass(frozen=True)
class Stop:
    """Why no more were started. Attributes: kind: in one word. why: in a sentence."""

    kind: Kind
    why: str

    @property
    def is_memory(self) -> bool:
        """Whether memory ran out."""
        return self.kind in ("allocation", "oom", "budget", "floor")

    @property
    def is_limit(self) -> bool:
        """Whether no more could have run; otherwise the count is only a lower bound of the host's capacity."""
        return self.kind not in ("most", "slow", "addresses")


def budget(lost: int, running: int, memory: int) -> Stop:
    """The stop of a host that has given its targets all the memory they were allowed, in bytes."""
    return Stop("budget", f"the host has lost {in_words(lost)} to {running}, of {in_words(memory)}")


def floor(left: int, each: int, kept: int) -> Stop:
    """The stop of a host that is down to its reserve.

    Args:
        left: bytes available.
        each: what one more would take; 0 where that does not count.
        kept: the reserve.
    """
    taken = f", one more takes {in_words(each)}" if each else ""
    return Stop(
        "floor", f"the host has {in_words(left)} available{taken}, and keeps {in_words(kept)}"
    )


def oom(limit: int, killed: int) -> Stop:
    """The stop of a control group that is full.

    Args:
        limit: the group's, in bytes.
        killed: how many processes it has ended for that.
    """
    return Stop(
        "oom",
        f"the control group of all, with {in_words(limit)}, had no memory left for one more: the kernel ended"
        f" {killed} process{'' if killed == 1 else 'es'}",
    )


def of_error(error: Exception) -> Stop | None:
    """The stop that a failed start means; ``None`` where it says nothing about the host, and is an error.

    Args:
        error: with the last words of what did not start.
    """
    if isinstance(error, TimedOut):
        return Stop("slow", f"a start took too long: {_line(str(error))}")
    if isinstance(error, MemoryError):
        return Stop("allocation", "this process was refused memory (MemoryError)")
    said = _OF_THE_MACHINE.split(str(error), maxsplit=1)[0]
    for kind, words in _WORDS:
        found = re.search(words, said, re.IGNORECASE)
        if found is not None:
            return Stop(kind, _line(said, found.start()))
    return None


def _line(text: str, place: int = 0) -> str:
    """The line of a text in which a place is, not too long."""
    begin = text.rfind("\n", 0, place) + 1
    line = text[begin:].partition("\n")[0].strip()
    return line if len(line) <= 300 else f"{line[:300]}…"
