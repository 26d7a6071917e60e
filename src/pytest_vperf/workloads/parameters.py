"""What the parameters of workloads have in common: numbers and addresses are checked before a tool sees them."""

from __future__ import annotations

import re

#: Names, IPv4 and IPv6 addresses, with a zone; nothing that a tool could take for an option.
_ADDRESS = re.compile(r"[0-9A-Za-z.:_%-]+")


def check_whole(name: str, value: object, least: int = 1, most: int | None = None) -> None:
    """Refuse a parameter that is no whole number, or beyond its bounds.

    Raises:
        ValueError: with its name.
    """
    if (
        isinstance(value, bool)
        or not isinstance(value, int)
        or value < least
        or (most is not None and value > most)
    ):
        bounds = f"of at least {least}" if most is None else f"from {least} to {most}"
        raise ValueError(f"{name} is {value!r}, not a whole number {bounds}")


def check_address(name: str, value: str) -> None:
    """Refuse a parameter that is no name or address of a host.

    Raises:
        ValueError: with its name.
    """
    if not _ADDRESS.fullmatch(value) or value.startswith("-"):
        raise ValueError(f"{name} is {value!r}, not an address")


def release(version: str) -> tuple[int, int]:
    """The first two numbers of a version; of one that has none, which nobody asked for, those of a new one."""
    match = re.match(r"([0-9]+)\.([0-9]+)", version)
    return (int(match[1]), int(match[2])) if match else (99, 0)
