"""Whose a container or a machine is, by the labels that it has."""

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
    """Of a run that died."""
    return {
        LABEL_RUN: "01234567",
        LABEL_PLACE: place(),
        LABEL_FOLDER: str(home / "run-01234567"),
        "maintainer": "somebody",
    }


def test_a_run_that_died(labels: dict[str, str], home: Path) -> None:
    folder = home / "run-01234567"
    assert dead_run(labels) == "01234567"  # also where its folder is gone
    folder.mkdir(parents=True)
    (folder / OWNER).touch()
    assert dead_run(labels) == "01234567"


def test_a_run_that_lives() -> None:
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
def test_a_run_of_others(labels: dict[str, str], change: dict[str, str]) -> None:
    assert dead_run({**labels, **change}) == ""
    for name in change:
        del labels[name]
    assert dead_run(labels) == ""


def test_machines_of_others_have_no_labels() -> None:
    assert dead_run({}) == ""
    assert dead_run({"maintainer": "somebody"}) == ""
