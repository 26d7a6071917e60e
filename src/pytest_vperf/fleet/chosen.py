"""The machines that a run has, of those that the file of a fleet names."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import pytest

from pytest_vperf.fleet.engines import engine_kinds
from pytest_vperf.fleet.file import read_fleet
from pytest_vperf.run.stash import claims_session
from pytest_vperf.thresholds.text_file import ThresholdError, nearest

if TYPE_CHECKING:
    from collections.abc import Sequence

    from pytest_vperf.fleet.engines import Engine, FleetMachine
    from pytest_vperf.fleet.file import FleetFile


@dataclass(frozen=True)
class Chosen:
    """What options and file say together.

    Attributes:
        file: the file.
        engine: its engine.
        machines: in the order of the engine.
        each: whether each of them runs every test.
        ahead: whether they had their orders before this run.
    """

    file: FleetFile
    engine: Engine
    machines: Sequence[FleetMachine]
    each: bool
    ahead: bool


def choose(config: pytest.Config) -> Chosen:
    """Read the file.

    Raises:
        pytest.UsageError: it is wrong, or an option is.
    """
    settings = claims_session(config).settings
    assert settings.fleet is not None
    try:
        engines = engine_kinds(config)
        file = read_fleet(settings.fleet, {name: each.keys for name, each in engines.items()})
        kind = engines[file.engine]
        engine = kind.make(file)
        found = engine.machines()
    except ThresholdError as error:
        raise pytest.UsageError(f"--claims-fleet: {error}") from None
    types = list(dict.fromkeys(machine.type for machine in found))
    for type_ in settings.fleet_hw:
        if type_ not in types:
            hint = nearest(type_, types) or f"; there are {', '.join(types)}"
            raise pytest.UsageError(f"--claims-fleet-hw: no machine is a {type_!r}{hint}")
    wanted = settings.fleet_hw or types
    machines = [machine for machine in found if machine.type in wanted]
    return Chosen(file, engine, machines, settings.fleet_run == "each", kind.ahead)
