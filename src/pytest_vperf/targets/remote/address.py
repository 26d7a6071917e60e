"""Addresses of other machines to start targets on: ``ssh://user@host:port``, or a lab's host, ``lab:kvm``."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

from pytest_vperf.targets.remote.connection import parse_url

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

_LAB = "lab:"


@dataclass(frozen=True)
class Address:
    """How a machine is reached.

    Attributes:
        url: ``ssh://[user@]host[:port]``.
        where: the machine's name in messages.
        config: a configuration for ``ssh``; ``None`` for the user's own.
        details: known facts, for records.
    """

    url: str
    where: str
    config: Path | None = None
    details: tuple[tuple[str, str], ...] = ()


def check(text: str, labs: Sequence[str]) -> str:
    """Make sure that a text names a machine.

    Args:
        text: ``ssh://[user@]host[:port]`` or ``lab:KIND``.
        labs: the existing kinds.

    Raises:
        ValueError: it does not; says what would.
    """
    if text.startswith(_LAB):
        if lab_of(text) not in labs:
            names = ", ".join(f"{_LAB}{kind}" for kind in labs)
            raise ValueError(f"there is no lab {lab_of(text)!r}; there are: {names}")
        return text
    try:
        parse_url(text)
    except ValueError as error:
        raise ValueError(f"{error}, nor lab:KIND") from None
    return text


def lab_of(text: str) -> str:
    """The kind of a lab's host; empty for other addresses."""
    return text.removeprefix(_LAB) if text.startswith(_LAB) else ""


def where(text: str) -> str:
    """The machine's name in messages: ``root@host``, ``lab kvm``."""
    kind = lab_of(text)
    return f"lab {kind}" if kind else urlsplit(text).netloc


def of_url(url: str) -> Address:
    """The address of a machine that the user named."""
    return Address(url, where(url))


def libvirt_uri(url: str, driver: str) -> str:
    """The address of libvirt's daemon there.

    Args:
        url: ``ssh://[user@]host[:port]``.
        driver: ``qemu`` or ``xen``.
    """
    return f"{driver}+ssh://{urlsplit(url).netloc}/{'system' if driver == 'qemu' else ''}"
