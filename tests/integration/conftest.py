"""Fixtures shared by integration tests: skipping what cannot run here, and engines."""

from __future__ import annotations

import os
import shutil
import signal
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from engine_here import (
    engine,
    had,
    one_cache,
    require,
    require_fixture,
    rootfs,
    session_run,
    short_folder,
)
from session_folder import LABS

from pytest_vperf.fixtures import core
from pytest_vperf.machine import cache
from pytest_vperf.targets.container.containers import Containers
from pytest_vperf.targets.container.engine import Engine, check
from pytest_vperf.targets.network.switch import Switch
from pytest_vperf.targets.scope import Scope

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from guests_here import Place
    from labs_here import SharedLabs
    from xdist.remote import Producer
    from xdist.scheduler import Scheduling

    from pytest_vperf.machine.runs import Run
    from pytest_vperf.targets.image.rootfs import Rootfs


# Fixtures that other test folders use, too.
__all__ = [
    "engine",
    "one_cache",
    "require_fixture",
    "rootfs",
    "session_run",
    "short_folder",
]

#: Time limit in seconds of a test in these folders, and of any other patient test: hosts start, limits are measured.
LONGER = {"guests": 300, "labs": 600, "metrology": 600}
PATIENT = 600


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Tests with shared lab hosts come last: a running host takes CPU time from other measurements."""
    for item in items:
        parts = item.path.relative_to(Path(__file__).parent).parts
        limit = LONGER.get(parts[0], PATIENT if item.get_closest_marker("patient") else 0)
        if limit and not item.get_closest_marker("timeout"):
            item.add_marker(pytest.mark.timeout(limit))
    items.sort(key=lambda item: "shared_labs" in getattr(item, "fixturenames", ()))


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: Producer) -> Scheduling | None:
    """With ``--dist loadfile``, tests of one folder below this one are run by one process, too."""
    if config.getoption("dist") != "loadfile":
        return None
    from by_folder import ByFolder

    return ByFolder(config, log)


@pytest.fixture(scope="session", autouse=True)
def _signals_arrive() -> None:
    """Programs that tests start receive SIGINT, even if the tests themselves run in the background and ignore it.

    A shell without job control has background jobs ignore SIGINT, and children inherit that (signal(7)).
    """
    if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
        signal.signal(signal.SIGINT, signal.default_int_handler)


@pytest.fixture
def runs_dir(short_folder: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A folder for runs of this test alone; `leftovers` sees no others."""
    folder = Path(tempfile.mkdtemp(dir=short_folder))
    monkeypatch.setenv("VPERF_RUNS_DIR", str(folder))
    yield folder
    shutil.rmtree(folder, ignore_errors=True)


@pytest.fixture(scope="module")
def switch(session_run: Run) -> Iterator[Switch]:
    """The run's own network."""
    if os.geteuid() != 0:
        pytest.skip("only root can make network namespaces and links")
    made = Switch(session_run)
    yield made
    made.close()


@pytest.fixture(scope="session")
def guest_place(short_folder: Path, session_run: Run) -> Iterator[Place]:
    """A private libvirt daemon, with the files that guests are started from."""
    from guests_here import Place, start_daemon

    from pytest_vperf.targets.guest import probe
    from pytest_vperf.targets.kernel.guest_kernel import distribution_kernel
    from pytest_vperf.targets.libvirt import connect

    require("guest", probe.needs())
    require("guest", connect.check())
    image, kernel = had("guest", core.make_tools_image), had("guest", distribution_kernel)
    own, daemon = start_daemon(session_run, cache.root() / "libvirt")
    place = Place(session_run, daemon, own, image, kernel)
    try:
        yield place
    finally:
        place.daemon.close()


@pytest.fixture(autouse=True)
def _one_test_loses_no_daemon_for_others(request: pytest.FixtureRequest) -> None:
    if "guest_place" in request.fixturenames:
        request.getfixturevalue("guest_place").renew()


@pytest.fixture(scope="session")
def shared_labs(short_folder: Path) -> Iterator[SharedLabs]:
    """Lab hosts, each started on first use and ended with the session, however that ends."""
    from labs_here import SharedLabs

    from pytest_vperf.lab import labs as product

    require("domu", product.check())
    folder = short_folder / LABS
    folder.mkdir(mode=0o700)
    shared = SharedLabs(folder)
    try:
        yield shared
    finally:
        shared.end()


@pytest.fixture(scope="session")
def tools() -> Rootfs:
    """The image with the tools, as the fixtures give it."""
    return had("container", core.make_tools_image)


@pytest.fixture
def containers(
    engine: Engine, session_run: Run, rootfs: str
) -> Iterator[Callable[[str], Containers]]:
    """Makes a factory for a runtime; its containers are closed with the test."""
    scope = Scope()

    def factory(runtime: str) -> Containers:
        require("container", check([runtime])[1])
        return Containers(
            lambda: engine, session_run, scope, runtime=runtime, rootfs=lambda _: rootfs
        )

    yield factory
    scope.close_since()
