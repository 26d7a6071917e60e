"""The run that only says what each machine of a fleet is to run, where nothing reaches the machines from here: the
runners of a CI system, of which each takes its order from a file and leaves its reports in one.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from pytest_vperf.fleet.lines import ORDER
from pytest_vperf.fleet.order import Orders
from pytest_vperf.fleet.plan import plan
from pytest_vperf.fleet.project import Project
from pytest_vperf.machine.whole_file import write_whole
from pytest_vperf.thresholds.text_file import ThresholdError

if TYPE_CHECKING:
    from pathlib import Path

    from pytest_vperf.fleet.chosen import Chosen


class Planner:
    """Writes the orders: a plug-in.

    Args:
        config: of the run; it runs no test.
        fleet: the machines.
        folder: for the files.
    """

    def __init__(self, config: pytest.Config, fleet: Chosen, folder: Path) -> None:
        self._config, self._fleet, self._folder = config, fleet, folder
        self._written = 0

    @pytest.hookimpl(trylast=True)  # then it is known which of the tests claim
    def pytest_collection_finish(self, session: pytest.Session) -> None:
        """Write them.

        Raises:
            pytest.UsageError: the project cannot be sent, or a file cannot be written.
        """
        if not session.items:
            return
        config, fleet = self._config, self._fleet
        try:
            project = Project(config, fleet.file, session.items) if fleet.file.sent else None
        except ThresholdError as error:
            raise pytest.UsageError(f"--claims-fleet: {error}") from None
        tests = list(dict.fromkeys(item.nodeid for item in session.items))
        shards = plan(tests, fleet.machines, each=fleet.each)
        orders = Orders(config, project, shards, len(fleet.machines))
        cargo = b"" if project is None else project.cargo.line
        try:
            self._folder.mkdir(parents=True, exist_ok=True)
            for shard in shards:
                path = self._folder / f"{shard.machine.name}{ORDER}"
                write_whole(path, (orders.line(shard) + cargo).decode("ascii"))
        except OSError as error:
            raise pytest.UsageError(
                f"--claims-fleet-plan: {error.filename or self._folder}: {error.strerror}"
            ) from None
        self._written = len(shards)

    def pytest_terminal_summary(self, terminalreporter: pytest.TerminalReporter) -> None:
        """Say where they are."""
        if self._written:
            machines = "1 machine" if self._written == 1 else f"{self._written} machines"
            terminalreporter.write_line(
                f"fleet: the orders of {machines} are in {self._folder}: nothing is run"
            )
