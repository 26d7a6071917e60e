"""Shared by tests of real targets: skipping what cannot run here, a folder for runs, an engine, its image."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, TypeVar

import pytest
from session_folder import session_folder

from pytest_vperf.machine import cache
from pytest_vperf.machine.preflight import Readiness
from pytest_vperf.machine.runs import Run
from pytest_vperf.targets.base import Unavailable
from pytest_vperf.targets.container.engine import Engine, check
from pytest_vperf.targets.image import rootfs as image

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

T = TypeVar("T")


@pytest.fixture(scope="session", autouse=True)
def one_cache() -> Iterator[None]:
    """Runs that pytester starts have another home folder, where the cache would be empty."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("VPERF_CACHE_DIR", str(cache.root()))
        yield


def require(kind: str, readiness: Readiness) -> None:
    """Skip the test, with the reason, unless what it needs is usable here.

    Where ``VPERF_TEST_REQUIRE`` (a comma-separated list) names the kind, or ``all``, it fails instead.
    """
    if readiness.usable:
        return
    reason = f"{readiness.name} is not usable: {readiness.why}"
    if readiness.remedy:
        reason += f" (to mend it: {readiness.remedy})"
    named = {word.strip() for word in os.environ.get("VPERF_TEST_REQUIRE", "").split(",")}
    if named & {kind, "all"}:
        pytest.fail(f"VPERF_TEST_REQUIRE names {kind}, but {reason}", pytrace=False)
    pytest.skip(reason)


def had(kind: str, make: Callable[[], T]) -> T:
    """What is made, or the test does without it as `require` says."""
    try:
        return make()
    except Unavailable as error:
        require(kind, Readiness(kind, False, error.reason, error.remedy))
        raise


@pytest.fixture(scope="session", name="require")
def require_fixture() -> Callable[[str, Readiness], None]:
    """`require`, for the fixtures of test files."""
    return require


@pytest.fixture(scope="session")
def short_folder() -> Iterator[Path]:
    """A folder with a short path: a Unix socket's path may have at most 107 bytes."""
    with session_folder() as folder:
        yield folder


@pytest.fixture(scope="session")
def session_run(short_folder: Path) -> Iterator[Run]:
    """A run in a folder apart from the user's own runs."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("VPERF_RUNS_DIR", str(short_folder / "s"))
        run = Run.begin()
    with run:
        yield run


@pytest.fixture(scope="session")
def engine(session_run: Run) -> Iterator[Engine]:
    """The engine of this machine, or a private one, started once."""
    require("container", check(())[0])
    with Engine.connect(session_run) as engine:
        yield engine


@pytest.fixture(scope="session")
def rootfs(engine: Engine) -> str:
    """The ID of the small image, in the engine."""
    return image.import_into(engine.client, had("container", image.default_rootfs))
