"""Plug-ins of others that run tests in a way of their own, or have a result for each visit to a test.

pytest has no public way to leave out a visit's result, so this touches what these plug-ins keep. It is tested with
the real ones; where one has nothing under these names, its own result stays.
"""

from __future__ import annotations

from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

#: Options with which a test is run several times, in another process, or only shown; and whose they are.
_OPTIONS: Mapping[str, str] = {
    "reruns": "pytest-rerunfailures (--reruns)",
    "force_flaky": "flaky (--force-flaky)",
    "forked": "pytest-forked (--forked)",
    "setupshow": "pytest (--setup-show)",
    "setuponly": "pytest (--setup-only)",
}
#: Markers of such plug-ins; `flaky` is one of two.
_MARKERS: Mapping[str, str] = {
    "flaky": "the plug-in of the marker flaky",
    "forked": "pytest-forked (the marker forked)",
}
#: What flaky's decorator leaves on a test or its class.
_DECORATED = "_flaky_max_runs"


def runs_it(item: pytest.Item) -> str:
    """Which plug-in runs a test in a way of its own; empty if none says so."""
    for option, plugin in _OPTIONS.items():
        if item.config.getoption(option, None):
            return plugin
    for marker, plugin in _MARKERS.items():
        if item.get_closest_marker(marker):
            return plugin
    decorated = (getattr(item, "obj", None), getattr(item, "cls", None))
    if any(getattr(each, _DECORATED, None) is not None for each in decorated):
        return "flaky (its decorator)"
    return ""


def ran_it(item: pytest.Item) -> str:
    """Which plug-in has taken a test before we could run it."""
    if named := runs_it(item):
        return named
    ours = item.config.pluginmanager.get_plugin("vperf")
    before: list[str] = []
    for each in reversed(item.config.hook.pytest_runtest_protocol.get_hookimpls()):
        if each.plugin is ours:
            break
        if not (each.hookwrapper or each.wrapper):
            name = str(each.plugin_name)
            before.append(Path(name).name if name.endswith(".py") else name)
    return " or ".join(before) or "another plug-in"


class BeforeFlaky:
    """Runs tests before flaky does, which otherwise runs all of them, and not only those that it reruns.

    A plug-in of its own, only where there is flaky: elsewhere a hook of a conftest file comes before ours.

    Args:
        run: a test that is not flaky's.
    """

    def __init__(self, run: Callable[[pytest.Item, pytest.Item | None], bool | None]) -> None:
        self._run = run

    @pytest.hookimpl(tryfirst=True)
    def pytest_runtest_protocol(
        self, item: pytest.Item, nextitem: pytest.Item | None
    ) -> bool | None:
        """Run a test, or leave it to others."""
        return self._run(item, nextitem)


def has_flaky(config: pytest.Config) -> bool:
    """Whether flaky is installed and not switched off."""
    return config.pluginmanager.has_plugin("flaky")


class Visit:
    """One visit to a test, as plug-ins with results of their own see it: begun before its set-up.

    Args:
        item: the test.
    """

    def __init__(self, item: pytest.Item) -> None:
        self._item = item
        self._benchmarks: Any = getattr(
            getattr(item.config, "_benchmarksession", None), "benchmarks", []
        )
        self._benchmarks_before = len(self._benchmarks)

    def leave_out(self) -> None:
        """Leave out the results of this visit: another one follows."""
        del self._benchmarks[self._benchmarks_before :]  # pytest-benchmark
        for plugin in self._item.config.pluginmanager.get_plugins():
            if type(plugin).__name__ == "AllureListener":
                self._leave_out_of_allure(plugin)

    def _leave_out_of_allure(self, listener: Any) -> None:
        # It writes a result when the protocol ends, if the test is in its cache.
        with suppress(AttributeError, LookupError):
            uuid = listener._cache.pop(self._item.nodeid)
            if uuid:
                listener.allure_logger.drop_test(uuid)
