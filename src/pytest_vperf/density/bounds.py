"""How far a host may be filled: so many, so much memory, and what it keeps for itself."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from pytest_vperf.machine.procfile import text
from pytest_vperf.quantity import format_number
from pytest_vperf.targets.base import TargetError

#: What the host keeps unless somebody says otherwise: so many bytes, or this share of its memory where that is less.
_RESERVE, _SHARE = 512 << 20, 1 / 8


@dataclass(frozen=True)
class Bounds:
    """How far a filling may go; ``None`` leaves it to the host.

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
    """Bytes that a host keeps unless somebody says otherwise.

    Args:
        total: its memory; ``None``: of this host.
    """
    return round(min(_RESERVE, (_meminfo("MemTotal") if total is None else total) * _SHARE))


def in_words(size: float) -> str:
    """Bytes as a person reads them: ``5.7 GiB``."""
    unit, factor = ("GiB", 1 << 30) if abs(size) >= 1 << 30 else ("MiB", 1 << 20)
    return f"{format_number(size / factor)} {unit}"


def _meminfo(name: str) -> int:
    for line in text(Path("/proc/meminfo")).splitlines():
        key, _, value = line.partition(":")
        if key == name:
            return int(value.split()[0]) * 1024
    raise TargetError(f"/proc/meminfo has no {name}")
