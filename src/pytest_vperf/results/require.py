"""``VPERF_REQUIRE=container,pod``: what must not be missing here, so that a gate cannot pass by measuring nothing."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable

    from pytest_vperf.results.record import ClaimRecord

VARIABLE = "VPERF_REQUIRE"
#: The kinds of targets, which are the first words of their names.
KINDS = ("host", "container", "pod", "guest", "domu")
ALL = "all"


def _required() -> list[str]:
    return [name.strip() for name in os.environ.get(VARIABLE, "").split(",") if name.strip()]


def check() -> None:
    """Refuse a name that could never be met, or never missed.

    Raises:
        pytest.UsageError: a name's first word is no kind of target.
    """
    for name in _required():
        if name != ALL and name.split()[0] not in KINDS:
            import pytest

            raise pytest.UsageError(
                f"{VARIABLE}: {name!r} is not known; there are {', '.join(KINDS)} and {ALL}"
            )


def _is_one(target: str, name: str) -> bool:
    return f"{target} ".startswith(f"{name} ")


def names(target: str) -> bool:
    """Whether the variable asks for this target, by its kind (``pod``) or closer (``pod tcg``)."""
    return any(name == ALL or _is_one(target, name) for name in _required())


def unmet(records: Iterable[ClaimRecord]) -> list[str]:
    """What was required and claimed about, but not measured once.

    One measured pod is enough for ``pod``: that a machine lacks one accelerator of two is no failure of a run
    that measured with the other. ``pod kvm`` asks for that one, ``all`` for every kind that is claimed about. A
    claim that was not measured and does not say on what may have been about any of them.
    """
    claims = [(record["target"].split(" / "), record) for record in records]
    unknown = any(
        targets == [""] and record["verdict"] == "not measured" for targets, record in claims
    )

    def measured(name: str) -> bool | None:
        about = [
            record for targets, record in claims if any(_is_one(target, name) for target in targets)
        ]
        return any(record["samples"] for record in about) if about else None

    missing = []
    for name in _required():
        if name == ALL:
            missing += [kind for kind in KINDS if measured(kind) is False] or [ALL] * unknown
        elif not measured(name) and (unknown or measured(name) is False):
            missing.append(name)
    return list(dict.fromkeys(missing))
