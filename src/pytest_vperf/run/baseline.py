"""The stored runs that ``--baseline`` names, looked up before anything is measured."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from pytest_vperf.claims.baseline import Baseline, NoBaseline
from pytest_vperf.results.store.choosing import Chosen, choose
from pytest_vperf.results.store.model import HeadPart, StoredRun, StoreProblem
from pytest_vperf.results.store.opening import open_store
from pytest_vperf.run.commit import read_commit

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from pytest_vperf.run.options import Settings


def find_baseline(
    settings: Settings, word: str, fingerprint: Callable[[], Mapping[str, str]]
) -> Baseline:
    """The runs of the word, and earlier ones of this build.

    Args:
        settings: of the run.
        word: what ``--baseline`` says.
        fingerprint: what this machine is; not asked where targets start on others, which are not known yet.

    Raises:
        pytest.UsageError: there is no such run, or none on this machine.
    """
    commit = read_commit()

    def is_this(run: StoredRun) -> bool:
        return bool(commit.id) and run.commit == commit.id and not (run.dirty or commit.dirty)

    try:
        store = open_store(settings.store)
        chosen = choose(store, word)
        same = tuple(filter(is_this, store.runs(commit=commit.id))) if commit.id else ()
        stored = tuple(run for run in chosen.runs if not is_this(run))
        if not stored:
            raise NoBaseline(f"all runs of {word} are of this build itself, {commit.id[:12]}")
        baseline = Baseline(
            word,
            Chosen(word, stored, chosen.side),
            Chosen("this build", same) if same else None,
            fingerprint,
        )
        if not settings.on and settings.fleet is None:
            baseline.check_machine()
    except (StoreProblem, NoBaseline) as error:
        raise pytest.UsageError(f"--baseline: {error}") from None
    return baseline


def for_machine(baseline: Baseline, machine: str) -> dict[str, Any]:
    """What a machine of a fleet is told, as JSON has it: its runs, or if there are none, one that says why. What else
    a run was on, the machine compares."""

    def told(chosen: Chosen) -> list[dict[str, Any]]:
        return [run.as_head() for run in chosen.runs if run.machine == machine]

    return {
        "side": baseline.stored.side,
        "stored": told(baseline.stored) or [baseline.stored.runs[0].as_head()],
        "same": told(baseline.same) if baseline.same is not None else [],
    }


def of_controller(
    told: Mapping[str, Any], word: str, fingerprint: Callable[[], Mapping[str, str]]
) -> Baseline:
    """The baseline that a machine of a fleet was told."""

    def runs(key: str) -> tuple[StoredRun, ...]:
        return tuple(StoredRun.of(HeadPart.model_validate(each)) for each in told[key])

    same = runs("same")
    return Baseline(
        word,
        Chosen(word, runs("stored"), told["side"]),
        Chosen("this build", same) if same else None,
        fingerprint,
    )
