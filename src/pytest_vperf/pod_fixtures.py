"""Pods as fixtures: made when they are first wanted."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from pytest_vperf.fixtures import parametrizes_itself, prepare, uses_tools
from pytest_vperf.stash import claims_session

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from pytest_vperf.machine.runs import Run
    from pytest_vperf.targets.domu.domu import Domu
    from pytest_vperf.targets.domu.xen_pods import XenPods
    from pytest_vperf.targets.image import Rootfs
    from pytest_vperf.targets.pod.assets import Assets
    from pytest_vperf.targets.pod.footprint import Footprint, Known
    from pytest_vperf.targets.pod.place import Place
    from pytest_vperf.targets.pod.pod import Pod
    from pytest_vperf.targets.pod.pods import Pods
    from pytest_vperf.targets.scope import Scope
    from pytest_vperf.targets.virt.daemon import Daemon


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """Run what asks for pods once per ``--accelerator``, unless it names its own."""
    if "pods" not in metafunc.fixturenames or parametrizes_itself(metafunc, "pods"):
        return
    accelerators = claims_session(metafunc.config).settings.accelerators
    if accelerators:
        metafunc.parametrize("pods", accelerators, ids=accelerators, indirect=True)


@pytest.fixture(scope="session")
def pod_assets_for(
    request: pytest.FixtureRequest,
    rootfs_for: Callable[[bool], Callable[[], Rootfs]],
    pod_place: Place,
) -> Callable[[bool], Callable[[], Assets]]:
    """Gives what pods are started from, with or without tools; see ``rootfs_for``."""
    kernel = claims_session(request.config).settings.guest_kernel
    return assets_for(rootfs_for, kernel, pod_place)


def assets_for(
    rootfs_for: Callable[[bool], Callable[[], Rootfs]], kernel: Path | None, place: Place
) -> Callable[[bool], Callable[[], Assets]]:
    """What pods with a kernel are started from, with or without tools: made at the first call.

    Args:
        rootfs_for: gives their image.
        kernel: a file; ``None`` takes the distribution's.
        place: the machine that they are started on.
    """
    from pytest_vperf.targets.once import Once
    from pytest_vperf.targets.pod import assets

    def of(make: Callable[[], Rootfs]) -> Callable[[], Assets]:
        return Once(lambda: assets.prepare(make(), kernel, place))

    # One for each image: where --container-image is both, its disk is made once.
    made = {make: of(make) for make in (rootfs_for(False), rootfs_for(True))}
    return lambda uses_tools: made[rootfs_for(uses_tools)]


@pytest.fixture
def pod_assets(
    request: pytest.FixtureRequest,
    pod_assets_for: Callable[[bool], Callable[[], Assets]],
    rootfs: Callable[[], Rootfs],  # which is made before
) -> Callable[[], Assets]:
    """What pods are started from, as a function: kernel, initramfs, disk and QEMU, made at the first call."""
    make = pod_assets_for(uses_tools(request))
    if uses_tools(request):
        prepare(make)
    return make


@pytest.fixture
def pods_on(
    request: pytest.FixtureRequest,
    pod_assets: Callable[[], Assets],
    vperf_run: Run,
    scope: Scope,
    pod_place: Place,
) -> Callable[[str], Pods | XenPods]:
    """Pods with an accelerator named by the test: ``pods_on("kvm").start()``."""
    from pytest_vperf.targets.pod.pods import Pods

    timeout = claims_session(request.config).settings.start_timeout

    def make(accelerator: str) -> Pods | XenPods:
        if accelerator == "xen":
            from pytest_vperf.targets.domu.xen_pods import XenPods

            daemon: Callable[[], Daemon] = request.getfixturevalue("xen_daemon")
            return XenPods(daemon, pod_assets, scope, timeout=timeout)
        return Pods(
            pod_assets, vperf_run, scope, accelerator=accelerator, timeout=timeout, place=pod_place
        )

    return make


@pytest.fixture
def pods(
    request: pytest.FixtureRequest, pods_on: Callable[[str], Pods | XenPods]
) -> Pods | XenPods:
    """Starts pods: ``pods.start()``; with each ``--accelerator``, or the quickest that works."""
    return pods_on(getattr(request, "param", "auto"))


@pytest.fixture
def pod(pods: Pods | XenPods) -> Pod | Domu:
    """A running pod."""
    return pods.start()


@pytest.fixture(scope="session")
def footprints_known() -> dict[tuple[str, ...], Known]:
    """Where the searches of this run for the least memory look first: each of them tries it anew."""
    return {}


@pytest.fixture
def footprint(footprints_known: dict[tuple[str, ...], Known]) -> Footprint:
    """The least memory that pods start with: ``footprint.least(pods).memory``."""
    from pytest_vperf.targets.pod.footprint import Footprint

    return Footprint(footprints_known)
