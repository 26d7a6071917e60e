"""``VPERF_REQUIRE=container,pod``: what must not be missing here, so that a gate cannot pass by measuring nothing."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable

    from pytest_vperf.results.record import ClaimRecord

VARIABLE = "VPERF_REQUIRE"


def _required() -> list[str]:
    return [name.strip() for name in os.environ.get(VARIABLE, "").split(",") if name.strip()]


def _is_one(target: str, name: str) -> bool:
    return f"{target} ".startswith(f"{name} ")


def names(target: str) -> bool:
    """Whether the variable asks for this target, by its kind (``pod``) or closer (``pod tcg``)."""
    return any(_is_one(target, name) for name in _required())


def unmet(records: Iterable[ClaimRecord]) -> list[str]:
    """What was required and claimed about, but not measured once.

    One measured pod is enough for ``pod``: that a machine lacks one accelerator of two is no failure of a run
    that measured with the other. ``pod kvm`` asks for that one.
    """
    claims = [(record["target"].split(" / "), record) for record in records]
    missing = []
    for name in _required():
        about = [
            record for targets, record in claims if any(_is_one(target, name) for target in targets)
        ]
        if about and not any(record["samples"] for record in about):
            missing.append(name)
    return missing
