"""What every store of runs has to do, a folder and a database alike; and runs to put into one."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from pytest_vperf.results.levels import Level
from pytest_vperf.results.store.model import StoredRun, StoreProblem

if TYPE_CHECKING:
    from pytest_vperf.results.store.model import Store

COMMIT = "4b7cd401792234e0ea41c1dbd8dd957bf65ce176"


def stored(number: int, *, name: str = "", commit: str = COMMIT, value: float = 1.5) -> StoredRun:
    return StoredRun(
        mark=f"{number:012x}",
        started=f"2026-11-26T09:{number // 60:02d}:{number % 60:02d}+00:00",
        name=name,
        commit=commit,
        dirty=bool(number % 2),
        branch="main",
        fingerprint={"cpu_model": "one"},
        levels=(
            Level("start.a", "", value, "ms", "lower", 8),
            Level("start.b", "base", 2.0, "", "", 9),
            Level("start.b", "head", 2.5, "", "", 9),
        ),
    )


def document(run: StoredRun) -> list[bytes]:
    """The lines of a record, as a run writes them."""
    head = {
        "format": 1,
        "vperf": "0.1",
        "run": run.mark,
        "started": run.started,
        "fingerprint": dict(run.fingerprint),
        "stored": run.as_key(),
        "claims": [],
    }
    return [
        f"{json.dumps(head)[:-2]}\n".encode(),
        b'{"name": "start.a"}\n',
        b'], "result": null}\n',
    ]


def save(store: Store, *runs: StoredRun) -> None:
    for run in runs:
        store.save(run, document(run))


WRITER = """
import sys
from stores import document, stored
from pytest_vperf.results.store.opening import open_store

store = open_store(sys.argv[1])
store.check()
for number in range(int(sys.argv[2]), int(sys.argv[2]) + 20):
    run = stored(number)
    store.save(run, document(run))
"""


class AnyStore:
    """Tests with a fixture ``store``, a new one for each."""

    def test_a_run_is_found_as_it_was_saved(self, store: Store) -> None:
        run = stored(1, name="main")
        save(store, run)
        assert store.runs() == [run]
        assert b"".join(store.document(run.mark)) == b"".join(document(run))

    def test_a_new_store_is_empty(self, store: Store) -> None:
        assert store.runs() == []
        store.check()
        assert store.runs() == []

    def test_runs_are_found_by_name_commit_and_claim_the_newest_first(self, store: Store) -> None:
        other = stored(3, name="main", commit="ff" * 20)
        save(store, stored(2), other, stored(1, name="main"))
        assert [run.mark[-1] for run in store.runs()] == ["3", "2", "1"]
        assert [run.mark[-1] for run in store.runs(name="main")] == ["3", "1"]
        assert [run.mark[-1] for run in store.runs(commit=COMMIT[:7])] == ["2", "1"]
        assert [run.mark[-1] for run in store.runs(most=2)] == ["3", "2"]
        assert store.runs(name="mai") == store.runs(commit="%") == store.runs(claim="start") == []
        assert [run.levels for run in store.runs(claim="start.a", most=1)] == [other.levels[:1]]

    def test_a_run_that_is_saved_again_is_there_once(self, store: Store) -> None:
        save(store, stored(1), stored(1, value=2.5))
        assert [run.levels[0].value for run in store.runs()] == [2.5]

    def test_what_is_not_there_is_said(self, store: Store) -> None:
        store.check()
        with pytest.raises(StoreProblem, match=r"has no run 0123456789ab$"):
            list(store.document("0123456789ab"))

    def test_several_writers_lose_nothing(self, store: Store) -> None:
        """They also make the store at the same time."""
        place = store.place
        writers = [
            subprocess.Popen(
                [sys.executable, "-c", WRITER, place, str(first)], cwd=Path(__file__).parent
            )
            for first in (0, 100, 200)
        ]
        assert [each.wait(60) for each in writers] == [0, 0, 0]
        assert len(store.runs()) == 60
