"""The plug-in of a pytest that runs a shard: it is a worker of the run, as one of pytest-xdist is, and whatever
behaves well in such a worker does so here.

It takes the order from a descriptor, and writes reports and notes to another: reports by pytest-reportlog.
"""

from __future__ import annotations

import json
import os
from contextlib import suppress
from pathlib import Path
from signal import SIGTERM
from typing import TYPE_CHECKING, Any

import pytest

from pytest_vperf.fleet.lines import VARIABLE
from pytest_vperf.machine.ending import end_with_parent

if TYPE_CHECKING:
    from collections.abc import Mapping

#: Options that write files, or act on what earlier runs left: all that is the run's, and not a shard's.
_OF_THE_RUN = {
    "xmlpath": None,
    "pastebin": None,
    "report_log": None,
    "lf": False,
    "failedfirst": False,
    "newfirst": False,
    "stepwise": False,
    "durations": None,
}


class Inside:
    """Makes a run of pytest a shard.

    Args:
        order: what is asked for: the ``tests``, and the ``input`` of a worker.
        stream: where reports and notes go, a path.
    """

    def __init__(self, order: Mapping[str, Any], stream: Path) -> None:
        self._order, self._stream = order, stream

    @pytest.hookimpl(tryfirst=True)
    def pytest_cmdline_main(self, config: pytest.Config) -> None:
        """Make it a worker before any plug-in is configured."""
        known: Any = config
        known.workerinput = {**self._order["input"], "vperf_notes": str(self._stream)}
        known.workeroutput = {}
        given = vars(config.option)
        given.update((key, value) for key, value in _OF_THE_RUN.items() if key in given)

    def pytest_configure(self, config: pytest.Config) -> None:
        """Write reports to the stream."""
        from pytest_reportlog.plugin import ReportLogPlugin

        config.pluginmanager.register(ReportLogPlugin(config, self._stream), "vperf-report-log")

    @pytest.hookimpl(trylast=True)
    def pytest_collection_modifyitems(self, items: list[pytest.Item]) -> None:
        """Take the tests of this shard, in the run's order."""
        found = {item.nodeid: item for item in items}
        tests = self._order["tests"]
        items[:] = [found[test] for test in tests if test in found]
        if missing := [test for test in tests if test not in found]:
            self._note("missing", missing)

    @pytest.hookimpl(tryfirst=True)
    def pytest_runtest_logstart(self, nodeid: str) -> None:
        """Note which test is under way: it may be what ends the machine."""
        self._note("begun", nodeid)

    @pytest.hookimpl(trylast=True)
    def pytest_unconfigure(self, config: pytest.Config) -> None:
        """Send what no report carried."""
        output: Mapping[str, Any] = getattr(config, "workeroutput", {})
        own = {key: value for key, value in output.items() if key.startswith("vperf_")}
        self._note("output", own)

    def _note(self, kind: str, what: Any) -> None:
        with suppress(OSError), self._stream.open("ab") as stream:
            stream.write(f"{json.dumps([kind, what])}\n".encode())


def pytest_addoption(pluginmanager: pytest.PytestPluginManager) -> None:
    """Take the order; without one, this plug-in does nothing."""
    given = os.environ.pop(VARIABLE, "")
    if not given:
        return
    end_with_parent(SIGTERM)
    order, stream = (int(each) for each in given.split(","))
    os.set_inheritable(stream, False)
    with os.fdopen(order, "rb") as opened:
        inside = Inside(json.load(opened), Path(f"/proc/self/fd/{stream}"))
    pluginmanager.register(inside, "vperf-inside")
