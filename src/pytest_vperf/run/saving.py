"""Keeping a run in the store: its record, its name, its commit, and the figures that later runs are held against."""

from __future__ import annotations

import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from pytest_vperf.results.levels import levels
from pytest_vperf.results.store.model import MOST_BRANCH, StoredRun, StoreProblem
from pytest_vperf.results.store.opening import open_store
from pytest_vperf.run.commit import read_commit

if TYPE_CHECKING:
    from pytest_vperf.results.run import RunRecord
    from pytest_vperf.results.store.model import Store
    from pytest_vperf.run.options import Settings


@dataclass
class Saving:
    """A run that will be kept.

    Attributes:
        store: where.
        name: what it is called; empty: nothing.
        commit: of the folder that pytest was called in, in full; empty outside of a repository.
        dirty: whether files had changed since.
        branch: empty if it is not known.
        trouble: why the run could not be kept; empty if it was.
        saved: how it is called in the store; empty until it is there.
    """

    store: Store
    name: str
    commit: str = ""
    dirty: bool = False
    branch: str = ""
    trouble: str = ""
    saved: str = ""

    @classmethod
    def begin(cls, settings: Settings) -> Saving:
        """See that the store can be written, and which commit this is: at the end it may be another one.

        Raises:
            pytest.UsageError: it cannot.
        """
        try:
            store = open_store(settings.store)
            store.check()
        except StoreProblem as error:
            raise pytest.UsageError(f"--claims-store: {error}") from None
        commit = read_commit()
        branch = commit.branch[:MOST_BRANCH]
        return cls(store, settings.save or "", commit.id, commit.dirty, branch)

    def save(self, record: RunRecord) -> None:
        """Keep the run, over a fleet that of each machine; if that fails, its record goes into a file, and `trouble`
        says which. Its journal is removed once the record is whole anywhere.
        """
        runs = []
        try:
            for each in record.of_machines():
                run = StoredRun(
                    mark=each.mark,
                    started=each.started,
                    name=self.name,
                    commit=self.commit,
                    dirty=self.dirty,
                    branch=self.branch,
                    fingerprint=each.fingerprint or {},
                    levels=tuple(levels(each.claims)),
                )
                self.store.save(run, each.document(run.as_key()))
                runs.append(run)
        except StoreProblem as error:
            self.trouble = str(error)
            if record.lasting:
                return
            if path := record.save_elsewhere():
                self.trouble += f"; the record is in {path}"
                record.kept_elsewhere()
            elif record.journal_path:
                self.trouble += f"; its claims are in {record.journal_path}"
        else:
            self.trouble, self.saved = "", "; ".join(str(each) for each in runs)
            record.kept_elsewhere()


def unsaved(settings: Settings) -> Path | None:
    """Beside which file the journal of a run is that a store alone keeps; ``None``: the run has no such journal.

    It is in the store, if that is a folder; a database cannot take a claim at a time.
    """
    if settings.save is None or settings.json is not None:
        return None
    database = "://" in settings.store
    return Path(tempfile.gettempdir() if database else settings.store, "vperf-unsaved.json")
