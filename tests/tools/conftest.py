"""A target of each kind, made by the plugin's own fixtures as a user's test gets them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from pytest_vperf.targets.container.containers import Containers
from pytest_vperf.targets.image import rootfs as image

if TYPE_CHECKING:
    from collections.abc import Callable

    from pytest_vperf.machine.runs import Run
    from pytest_vperf.targets.container.engine import Engine
    from pytest_vperf.targets.image.rootfs import Rootfs
    from pytest_vperf.targets.scope import Scope

#: So much that a pod holds STREAM's three arrays.
MEMORY = "1 GiB"


@pytest.fixture
def containers_of(
    _vperf_engine: Callable[[], Engine],
    rootfs: Callable[[], Rootfs],
    vperf_run: Run,
    vperf_scope: Scope,
) -> Callable[[str], Containers]:
    """Containers of a runtime that the test names."""

    def imported(found: Engine) -> str:
        return image.import_into(found.client, rootfs())

    def make(runtime: str) -> Containers:
        return Containers(
            _vperf_engine, vperf_run, vperf_scope, runtime=runtime, rootfs=imported, tree=rootfs
        )

    return make


@pytest.fixture
def start(request: pytest.FixtureRequest) -> Callable[..., Any]:
    """Starts the target that the test is parametrized with, on disks and networks where it takes any."""
    kind, _, variant = request.param.partition(" ")

    def make(**options: Any) -> Any:
        if kind == "host":
            return request.getfixturevalue("native")
        if kind == "container":
            return request.getfixturevalue("containers_of")(variant).start(**options)
        return request.getfixturevalue("pods_on")(variant).start(memory=MEMORY, **options)

    return make
