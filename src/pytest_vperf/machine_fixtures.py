"""Whole virtual machines as fixtures: what a claim about them meets until there are such targets.

A published claim is a test also where the target cannot start: it is then *not measured*, with the reason.
"""

from __future__ import annotations

from typing import NoReturn

import pytest


class NotYet:
    """Starts machines of a kind that this version cannot start.

    Attributes:
        kind: as in the names of claims, e.g. ``domu``.
    """

    def __init__(self, kind: str) -> None:
        self.kind = kind

    def start(self, **_: object) -> NoReturn:
        """Say that there is no such target.

        Raises:
            Unavailable: always.
        """
        from pytest_vperf.targets.base import Unavailable

        name = self.kind.replace(".", " ")
        raise Unavailable(f"this version of pytest-vperf starts no {name}", target=name)


@pytest.fixture
def domus() -> NotYet:
    """Xen domUs, through libvirt: none in this version."""
    return NotYet("domu")
