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
    from pytest_vperf.targets.kernel.pair import Kernels, Starter
    from pytest_vperf.targets.pod.assets import Assets
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
    request: pytest.FixtureRequest, rootfs_for: Callable[[bool], Callable[[], Rootfs]]
) -> Callable[[bool], Callable[[], Assets]]:
    """Gives what pods are started from, with or without tools; see ``rootfs_for``."""
    kernel = claims_session(request.config).settings.guest_kernel
    return _assets_for(rootfs_for, kernel)


def _assets_for(
    rootfs_for: Callable[[bool], Callable[[], Rootfs]], kernel: Path | None
) -> Callable[[bool], Callable[[], Assets]]:
    from pytest_vperf.targets.once import Once
    from pytest_vperf.targets.pod import assets

    def of(make: Callable[[], Rootfs]) -> Callable[[], Assets]:
        return Once(lambda: assets.prepare(make(), kernel))

    # One for each image: where --container-image is both, its disk is made once.
    made = {make: of(make) for make in (rootfs_for(False), rootfs_for(True))}
    return lambda uses_tools: made[rootfs_for(uses_tools)]


@pytest.fixture(scope="session")
def compared_assets_for(
    request: pytest.FixtureRequest,
    rootfs_for: Callable[[bool], Callable[[], Rootfs]],
    pod_assets_for: Callable[[bool], Callable[[], Assets]],
) -> Callable[[bool], tuple[Callable[[], Assets], Callable[[], Assets]]]:
    """Gives what pods with ``--kernel`` are started from, and those with ``--baseline-kernel``."""
    settings = claims_session(request.config).settings
    new, baseline = settings.new_kernel, settings.baseline_kernel
    new_for = _assets_for(rootfs_for, new)
    baseline_for = _assets_for(rootfs_for, baseline) if baseline else pod_assets_for
    return lambda uses_tools: (new_for(uses_tools), baseline_for(uses_tools))


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
) -> Callable[[str], Pods | XenPods]:
    """Pods with an accelerator named by the test: ``pods_on("kvm").start()``."""
    from pytest_vperf.targets.pod.pods import Pods

    timeout = claims_session(request.config).settings.start_timeout

    def make(accelerator: str) -> Pods | XenPods:
        if accelerator == "xen":
            from pytest_vperf.targets.domu.xen_pods import XenPods

            daemon: Callable[[], Daemon] = request.getfixturevalue("xen_daemon")
            return XenPods(daemon, pod_assets, scope, timeout=timeout)
        return Pods(pod_assets, vperf_run, scope, accelerator=accelerator, timeout=timeout)

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


@pytest.fixture
def kernels(request: pytest.FixtureRequest, vperf_run: Run, scope: Scope) -> Kernels:
    """Machines with ``--kernel`` and ``--baseline-kernel``: ``kernels.new.start()``, ``kernels.baseline.start()``.

    A test is parametrized with the kinds of machines, such as ``pod.kvm``; without it, pods with the quickest
    accelerator that works.
    """
    from pytest_vperf.targets.kernel.pair import Kernels, NotNamed

    kind = getattr(request, "param", "pod.auto")
    if claims_session(request.config).settings.new_kernel is None:
        return Kernels(kind, lambda _: NotNamed(kind), lambda _: NotNamed(kind), scope)
    machine, _, accelerator = kind.partition(".")
    if machine != "pod":
        raise pytest.UsageError(f"the fixture 'kernels' knows pods, not {kind!r}: e.g. 'pod.kvm'")
    usual: Callable[[], Assets] = request.getfixturevalue("pod_assets")
    both = request.getfixturevalue("compared_assets_for")(uses_tools(request))
    if uses_tools(request):
        for make in both:
            prepare(make)
    timeout = claims_session(request.config).settings.start_timeout

    def with_kernel(assets: Callable[[], Assets]) -> Callable[[Scope], Starter]:
        from pytest_vperf.targets.pod.pods import Pods

        # The accelerator is tried with the usual kernel: where that boots and this one does not, it is this one's.
        return lambda owner: Pods(
            assets, vperf_run, owner, accelerator=accelerator, timeout=timeout, probed=usual
        )

    return Kernels(kind, with_kernel(both[0]), with_kernel(both[1]), scope)
