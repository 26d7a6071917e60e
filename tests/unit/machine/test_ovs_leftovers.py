"""Bridges of Open vSwitch that runs made on this machine, with a fake that keeps them in a file."""

from __future__ import annotations

import json
import os
from typing import TYPE_CHECKING

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pytest_vperf.machine import leftovers, networks, open_vswitch
from pytest_vperf.machine.runs import LABEL_FOLDER, LABEL_PLACE, LABEL_RUN, OWNER, Run, place

if TYPE_CHECKING:
    from pathlib import Path

#: Lists bridges, and deletes one by its name; the others keep their labels.
STAND_IN = """#!/usr/bin/python3
import json, pathlib, sys
file = pathlib.Path(__file__).with_name("bridges")
bridges = json.loads(file.read_text())
words = sys.argv[1:]
assert words.pop(0) == "--timeout=10", words
if words == ["--format=json", "--columns=name,external_ids", "list", "Bridge"]:
    rows = [[name, ["map", list(ids.items())]] for name, ids in bridges.items()]
    print(json.dumps({"headings": ["name", "external_ids"], "data": rows}))
elif words[:2] == ["--if-exists", "del-br"]:
    if words[2] in bridges and bridges[words[2]].get("held"):
        sys.exit("ovs-vsctl: it is held")
    bridges.pop(words[2], None)
    file.write_text(json.dumps(bridges))
else:
    sys.exit(f"not known: {words}")
"""
DEAD = "01234567"


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Where runs have their folders."""
    folder = tmp_path / "runs"
    monkeypatch.setenv("VPERF_RUNS_DIR", str(folder))
    return folder


@pytest.fixture
def switch(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The file with the bridges of Open vSwitch."""
    folder = tmp_path / "bin"
    folder.mkdir()
    program = folder / "ovs-vsctl"
    program.write_text(STAND_IN)
    program.chmod(0o755)
    monkeypatch.setenv("PATH", f"{folder}:{os.environ['PATH']}")
    (folder / "bridges").write_text("{}")
    return folder / "bridges"


def labels(home: Path, run: str = DEAD) -> dict[str, str]:
    return {LABEL_RUN: run, LABEL_PLACE: place(), LABEL_FOLDER: str(home / f"run-{run}")}


def folder_of_a_dead_run(home: Path) -> Path:
    folder = home / f"run-{DEAD}"
    folder.mkdir(parents=True)
    (folder / OWNER).write_text('{"pid": 1, "command": [], "began": 0}')
    return folder


def test_leftovers_of_a_killed_run_are_found_and_removed(home: Path, switch: Path) -> None:
    folder = folder_of_a_dead_run(home)
    others = {"br0": {}, "vpfedcba98n0": {**labels(home, "fedcba98"), LABEL_PLACE: "elsewhere/0"}}
    with Run.begin() as alive:
        others[networks.link_name(alive.id, "n0")] = alive.labels
        bridges = {f"vp{DEAD}n0": labels(home), f"vp{DEAD}n1": {}, **others}
        switch.write_text(json.dumps(bridges))
        found = leftovers.find()
        assert [str(leftover) for leftover in found] == [
            f"run {DEAD}: bridge vp{DEAD}n0",
            f"run {DEAD}: bridge vp{DEAD}n1",
            f"run {DEAD}: folder {folder}",
        ]
        assert leftovers.remove(found) == []
        assert json.loads(switch.read_text()) == others
        assert leftovers.find() == []
        # A Ctrl-C may have come before the bridge had an owner.
        assert leftovers.end_of_run(alive.folder) == []
    assert list(json.loads(switch.read_text())) == ["br0", "vpfedcba98n0"]


def test_a_bridge_is_found_where_the_folder_is_gone(home: Path, switch: Path) -> None:
    home.mkdir()
    switch.write_text(json.dumps({f"vp{DEAD}n0": labels(home)}))
    assert [str(leftover) for leftover in leftovers.sweep()] == [f"run {DEAD}: bridge vp{DEAD}n0"]
    assert json.loads(switch.read_text()) == {}


def test_a_bridge_that_cannot_be_removed_says_why(home: Path, switch: Path) -> None:
    switch.write_text(json.dumps({f"vp{DEAD}n0": {"held": "yes", **labels(home)}}))
    assert leftovers.remove(leftovers.find()) == [
        f"run {DEAD}: bridge vp{DEAD}n0 could not be removed: ovs-vsctl: it is held"
    ]


@pytest.mark.parametrize("answer", ["exit 1", "echo '{\"data\": 5}'", "echo no"])
def test_a_silent_open_vswitch_does_not_stop_the_sweep(
    home: Path, switch: Path, answer: str
) -> None:
    folder_of_a_dead_run(home)
    switch.with_name("ovs-vsctl").write_text(f"#!/bin/sh\n{answer}\n")
    assert [leftover.kind for leftover in leftovers.sweep()] == ["folder"]


def test_without_open_vswitch_there_are_no_bridges(
    home: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(open_vswitch, "find_program", lambda _: None)
    assert open_vswitch.bridges_of(DEAD) == []
    assert open_vswitch.forgotten() == {}
    assert open_vswitch.remove("br0") == ""


def test_a_bridge_is_labelled_when_it_is_made() -> None:
    assert open_vswitch.make("br7", "netdev", {"a.b": "/a b", "c": "d"}) == (
        *("ovs-vsctl", "--timeout=10", "add-br", "br7", "--", "set", "Bridge", "br7"),
        *("datapath_type=netdev", 'external_ids:a.b="/a b"', 'external_ids:c="d"'),
    )


@given(st.dictionaries(st.text(), st.dictionaries(st.text(), st.text())))
def test_labels_are_read_unchanged(bridges: dict[str, dict[str, str]]) -> None:
    rows = [[name, ["map", list(ids.items())]] for name, ids in bridges.items()]
    assert open_vswitch.labels_of(json.dumps({"headings": [], "data": rows})) == bridges


@pytest.mark.parametrize("printed", ["", "{}", '{"data": [["a"]]}', '{"data": [["a", 5]]}'])
def test_unreadable_answers_are_not_taken_for_answers(printed: str) -> None:
    with pytest.raises(ValueError, match="what ovs-vsctl says is not understood: "):
        open_vswitch.labels_of(printed)
