"""Where known truths are measured: targets with the tools' image, undisturbed as far as a shared machine allows."""

from __future__ import annotations

import contextlib
import os
import sys
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

FOLDER = Path(__file__).parent / "truths"
if str(FOLDER) not in sys.path:
    sys.path.insert(0, str(FOLDER))

from known_truth import CPU, ROW, Row, Table  # noqa: E402 - found beside this file
from lab import Lab  # noqa: E402

from pytest_vperf.machine import cgroups, lock  # noqa: E402
from pytest_vperf.targets.container.containers import Containers  # noqa: E402
from pytest_vperf.targets.container.engine import check as check_engine  # noqa: E402
from pytest_vperf.targets.control_group import ControlGroup  # noqa: E402
from pytest_vperf.targets.host import Host  # noqa: E402
from pytest_vperf.targets.image import rootfs  # noqa: E402
from pytest_vperf.targets.limits import Limits  # noqa: E402
from pytest_vperf.targets.pod.assets import prepare  # noqa: E402
from pytest_vperf.targets.pod.pods import Pods  # noqa: E402
from pytest_vperf.targets.pod.probe import check as check_pods  # noqa: E402
from pytest_vperf.targets.scope import Scope  # noqa: E402

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from pytest_vperf.machine.preflight import Readiness
    from pytest_vperf.machine.runs import Run
    from pytest_vperf.targets.base import Target
    from pytest_vperf.targets.image.rootfs import Rootfs
    from pytest_vperf.targets.pod.assets import Assets

#: The greatest weights of version 1 and 2.
_GREATEST = {"cpu.shares": "262144", "cpu.weight": "10000"}

_HELD = pytest.StashKey[contextlib.ExitStack]()
#: Passed to workers whose controller holds the machine's lock.
_HELD_FOR_ALL = "the machine is held for all"


@pytest.fixture
def table(record_property: Callable[[str, object], None]) -> Iterator[Table]:
    """The rows of a test; all rows are printed at the end of the session."""
    made = Table()
    yield made
    for row in made.rows:
        record_property(ROW, asdict(row))


@pytest.hookimpl(optionalhook=True)
def pytest_configure_node(node: Any) -> None:
    """Hold the machine's lock for all workers: no other process measures a claim meanwhile."""
    if _HELD not in node.config.stash:
        node.config.stash[_HELD] = contextlib.ExitStack()
        node.config.stash[_HELD].enter_context(lock.measuring(print))
    node.workerinput[_HELD_FOR_ALL] = True


@pytest.fixture(scope="session", autouse=True)
def lock_of_a_cpu(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[None]:
    """Where the machine is held for all workers, one waits only for those that measure on the same CPU."""
    with pytest.MonkeyPatch.context() as patch:
        if _HELD_FOR_ALL in getattr(request.config, "workerinput", {}):
            folder = tmp_path_factory.getbasetemp().parent  # is that of all workers
            patch.setenv("VPERF_LOCK", str(folder / f"measuring-{CPU}"))
        yield


def pytest_unconfigure(config: pytest.Config) -> None:
    if _HELD in config.stash:
        config.stash[_HELD].close()


def pytest_terminal_summary(terminalreporter: Any) -> None:
    reports = [
        report
        for each in terminalreporter.stats.values()
        for report in each
        if isinstance(report, pytest.TestReport) and report.when == "teardown"
    ]
    reports.sort(key=lambda report: report.nodeid)
    properties: list[tuple[str, Any]] = [
        each for report in reports for each in report.user_properties
    ]
    if rows := [Row(**value) for name, value in properties if name == ROW]:
        terminalreporter.section("known truth")
        for line in Table(rows).lines():
            terminalreporter.line(line)


@pytest.fixture(scope="session")
def undisturbed(session_run: Run) -> Iterator[None]:
    """Gives the run's control group the greatest weight, so that other work on the machine takes little from it.

    What is compared are parts of the group with each other. Time that a hypervisor takes is not kept off by this.
    """
    if os.geteuid() != 0:
        pytest.skip("control groups need root")
    group = ControlGroup(session_run, Limits(cpu_shares=1024), "undisturbed")
    for folder in cgroups.named(session_run.cgroup):
        for name, value in _GREATEST.items():
            if (folder / name).exists():
                (folder / name).write_text(value)
    yield
    group.close()


@pytest.fixture
def lab(
    request: pytest.FixtureRequest, session_run: Run, tools: Rootfs, undisturbed: None
) -> Iterator[Lab]:
    """Targets for one test."""
    scope = Scope()
    host = scope.own(Host(session_run, lambda: tools))

    def start_host(**limits: Any) -> Target:
        # The usual weight, for a place in the undisturbed group: a host without limits is in none.
        return scope.own(host.limited(**{"cpu_shares": 1024, "cpuset": CPU, **limits}))

    def start_container(**limits: Any) -> Target:
        engine, imported = request.getfixturevalue("engine_with_tools")
        containers = Containers(
            lambda: engine, session_run, scope, rootfs=lambda _: imported, tree=lambda: tools
        )
        return containers.start(**{"cpuset": CPU, **limits})

    def start_pod(**limits: Any) -> Target:
        assets: Assets = request.getfixturevalue("assets_with_tools")
        pods = Pods(lambda: assets, session_run, scope, accelerator="tcg")
        return pods.start(**{"cpu_shares": 1024, "cpuset": CPU, **limits})

    try:
        yield Lab(
            scope,
            session_run,
            {"host": start_host, "container": start_container, "pod": start_pod},
        )
    finally:
        scope.close_since()


@pytest.fixture(scope="session")
def engine_with_tools(
    engine: Any, tools: Rootfs, require: Callable[[str, Readiness], None]
) -> tuple[Any, str]:
    """The engine, and the ID of the tools' image in it."""
    require("container", check_engine(["runc"])[1])
    return engine, rootfs.import_into(engine.client, tools)


@pytest.fixture(scope="session")
def assets_with_tools(tools: Rootfs, require: Callable[[str, Readiness], None]) -> Assets:
    """What pods are started from."""
    require("pod", check_pods(afresh=False)[0])
    return prepare(tools)
