"""What a run must measure, so that a gate cannot pass by measuring nothing.

``VPERF_REQUIRE=container,pod`` names targets. So do the options that say what containers and pods are to run on: a
runtime whose name is misspelt is never measured.
"""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, NamedTuple

import pytest

from pytest_vperf.run import doors
from pytest_vperf.run.settings import is_said

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from pytest_vperf.results.record import ClaimRecord
    from pytest_vperf.run.options import Settings

VARIABLE = "VPERF_REQUIRE"
ALL = "all"


class Asked(NamedTuple):
    """Targets that somebody asked for.

    Attributes:
        by: the variable, or the option with its value.
        targets: their names, by kind (``pod``) or more specifically (``pod tcg``); one of them is enough.
    """

    by: str
    targets: tuple[str, ...]


def _required() -> list[str]:
    return [name.strip() for name in os.environ.get(VARIABLE, "").split(",") if name.strip()]


def kinds_of(config: pytest.Config) -> tuple[str, ...]:
    """The kinds that the variable may name: the first words of targets' names."""
    return tuple(name for name, kind in doors.target_kinds(config).items() if kind.may_be_required)


def check(config: pytest.Config) -> None:
    """Refuse a name in the variable that no target could match.

    Raises:
        pytest.UsageError: a name's first word is not a kind of target.
    """
    kinds = kinds_of(config)
    for name in _required():
        if name != ALL and name.split()[0] not in kinds:
            raise pytest.UsageError(
                f"{VARIABLE}: {name!r} is not known; there are {', '.join(kinds)} and {ALL}"
            )


def asked_in(config: pytest.Config, settings: Settings) -> list[Asked]:
    """What the options name, on the command line or in the ini file: runtimes and accelerators."""
    runtimes = settings.runtimes if is_said(config, "container_runtime") else ()
    return [
        *(Asked(f"--container-runtime={name}", (f"container {name}",)) for name in runtimes),
        *(
            Asked(f"--vperf-accelerator={name}", (f"pod {name}", f"guest {name}"))
            for name in settings.accelerators
        ),
    ]


def names(target: str) -> bool:
    """Whether the variable requires this target, by kind (``pod``) or more specifically (``pod tcg``)."""
    return any(name == ALL or _is_one(target, name) for name in _required())


def unmet(
    records: Iterable[ClaimRecord], kinds: Sequence[str], asked: Iterable[Asked] = ()
) -> list[Asked]:
    """What was to be measured, and never was.

    One measured pod is enough for ``pod``: a run does not fail because a machine has only one of two accelerators.
    ``pod kvm`` requires that one, ``all`` every kind that a claim is about. What the variable names is to be measured
    by every run; what an option names only where there are claims about it. A claim that was not measured and names
    no target, or only its kind, may have been about any of them.

    Args:
        records: of all claims of the run.
        kinds: of targets, that ``all`` stands for.
        asked: what else is to be measured.
    """
    claims = [(record["target"].split(" / "), record) for record in records]
    missing = []
    for name in _required():
        if name == ALL:
            lacking = [kind for kind in kinds if _measured(claims, (kind,)) is False]
            unknown = any(targets == [""] and _lacks(record) for targets, record in claims)
            missing += [Asked(VARIABLE, (each,)) for each in lacking or [ALL] * unknown]
        elif not _measured(claims, (name,)):
            missing.append(Asked(VARIABLE, (name,)))
    missing += [each for each in asked if _measured(claims, each.targets) is False]
    return list(dict.fromkeys(missing))


def _measured(
    claims: Iterable[tuple[Sequence[str], ClaimRecord]], names: Iterable[str]
) -> bool | None:
    """Whether a claim about one of these targets has samples; ``None`` if no claim was about them."""
    about = [
        bool(record["samples"])
        for targets, record in claims
        for target in targets
        for name in names
        if _is_one(target, name) or (target and _lacks(record) and _is_one(name, target))
    ]
    return any(about) if about else None


def _lacks(record: ClaimRecord) -> bool:
    return record["verdict"] == "not measured"


def _is_one(target: str, name: str) -> bool:
    return f"{target} ".startswith(f"{name} ")
