"""The owner of a container or machine, by its labels."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from pytest_vperf.machine.runs import (
    LABEL_FOLDER,
    LABEL_PLACE,
    LABEL_RUN,
    OWNER,
    Run,
    dead_run,
    place,
)

if TYPE_CHECKING:
    from pathlib import Path


@pytest.fixture(autouse=True)
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("VPERF_RUNS_DIR", str(tmp_path / "runs"))
    return tmp_path / "runs"


@pytest.fixture
def labels(home: Path) -> dict[str, str]:
    """Labels of a dead run."""
    return {
        LABEL_RUN: "01234567",
        LABEL_PLACE: place(),
        LABEL_FOLDER: str(home / "run-01234567"),
        "maintainer": "somebody",
    }


def test_labels_of_a_dead_run_name_it(labels: dict[str, str], home: Path) -> None:
    folder = home / "run-01234567"
    assert dead_run(labels) == "01234567"  # also where its folder is gone
    folder.mkdir(parents=True)
    (folder / OWNER).touch()
    assert dead_run(labels) == "01234567"


def test_labels_of_a_live_run_name_no_dead_run() -> None:
    with Run.begin() as run:
        assert dead_run(run.labels) == ""
    assert dead_run(run.labels) == run.id


@pytest.mark.parametrize(
    "change",
    [
        {LABEL_PLACE: "elsewhere/0"},
        {LABEL_FOLDER: "/not/here/run-01234567"},
        {LABEL_FOLDER: ""},
        {LABEL_RUN: ""},
    ],
)
def test_labels_of_others_name_no_dead_run(labels: dict[str, str], change: dict[str, str]) -> None:
    assert dead_run({**labels, **change}) == ""
    for name in change:
        del labels[name]
    assert dead_run(labels) == ""


def test_machines_of_others_have_no_labels() -> None:
    assert dead_run({}) == ""
    assert dead_run({"maintainer": "somebody"}) == ""
