"""The stored runs that ``--baseline`` names, looked up before anything is measured."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from pytest_vperf.claims.baseline import Baseline, NoBaseline
from pytest_vperf.results.store.choosing import Chosen, choose
from pytest_vperf.results.store.model import StoreProblem
from pytest_vperf.results.store.opening import open_store
from pytest_vperf.run.commit import read_commit

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from pytest_vperf.results.store.model import StoredRun
    from pytest_vperf.run.options import Settings


def find_baseline(
    settings: Settings, word: str, fingerprint: Callable[[], Mapping[str, str]]
) -> Baseline:
    """The runs of the word, and earlier ones of this build.

    Args:
        settings: of the run.
        word: what ``--baseline`` says.
        fingerprint: what this machine is; not asked where targets start on another one, which is not known yet.

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
        if not settings.on:
            baseline.check_machine()
    except (StoreProblem, NoBaseline) as error:
        raise pytest.UsageError(f"--baseline: {error}") from None
    return baseline
