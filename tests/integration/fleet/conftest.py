"""Machines of a fleet, and a project that has them."""

from __future__ import annotations

from typing import TYPE_CHECKING

import fleet_rig
import pytest
from engine_here import require
from fleet_project import TYPES, make_project

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from fleet_project import Project
    from fleet_rig import Rig


@pytest.fixture(scope="session")
def rig(short_folder: Path) -> Iterator[Rig]:
    require("fleet", fleet_rig.check())
    slurm = fleet_rig.check_slurm().usable
    with fleet_rig.machines(short_folder / "fleet", TYPES, slurm=slurm) as made:
        yield made


@pytest.fixture(params=["ssh", "slurm"])
def engine(request: pytest.FixtureRequest) -> str:
    if request.param == "slurm":
        require("fleet", fleet_rig.check_slurm())
    return str(request.param)


@pytest.fixture
def project(rig: Rig, tmp_path: Path, engine: str) -> Project:
    if engine == "slurm":
        rig.await_nodes(len(TYPES))
    return make_project(tmp_path, rig, engine)
