"""A hundred nodes of a cluster, each with a shard: takes minutes here, as all of them are this machine."""

from __future__ import annotations

from typing import TYPE_CHECKING

import fleet_rig
import pytest
from engine_here import require
from fleet_project import make_project

if TYPE_CHECKING:
    from pathlib import Path

pytestmark = [pytest.mark.patient, pytest.mark.timeout(1200)]
TYPES = {f"h{number}": "type-a" for number in range(1, 101)}


def test_each_of_a_hundred_nodes_is_accounted_for(short_folder: Path, tmp_path: Path) -> None:
    require("fleet", fleet_rig.check_slurm())
    with fleet_rig.machines(short_folder / "hundred", TYPES, slurm=True) as rig:
        project = make_project(tmp_path, rig, "slurm")
        words = ["--claims-fleet-run=each", "--claims-budget=1s", "test_it.py::test_quick[0]"]
        started = project.start(*words, silent=40.0)
        status, output = started.ended(900.0)
        assert {
            each["machine"]["name"]: each["verdict"] for each in started.claims
        } == dict.fromkeys(TYPES, "holds"), output
        assert len(started.claims) == len(TYPES)
        assert status == 0, output
        project.clear_after(list(TYPES), 30.0)
