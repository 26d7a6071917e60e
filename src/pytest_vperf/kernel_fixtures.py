"""Two kernels as a fixture: machines with ``--kernel``, and the same with ``--baseline-kernel``."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from pytest_vperf.fixtures import prepare, uses_tools
from pytest_vperf.pod_fixtures import assets_for
from pytest_vperf.stash import claims_session

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from pytest_vperf.machine.runs import Run
    from pytest_vperf.targets.guest.guests import Guests
    from pytest_vperf.targets.image import Rootfs
    from pytest_vperf.targets.kernel.guest_kernel import GuestKernel
    from pytest_vperf.targets.kernel.pair import Kernels, Starter
    from pytest_vperf.targets.pod.assets import Assets
    from pytest_vperf.targets.pod.place import Place
    from pytest_vperf.targets.scope import Scope

    #: Makes what starts machines with a kernel, for the scope that owns them.
    Maker = Callable[[Scope], Starter]


@pytest.fixture(scope="session")
def compared_assets_for(
    request: pytest.FixtureRequest,
    rootfs_for: Callable[[bool], Callable[[], Rootfs]],
    pod_assets_for: Callable[[bool], Callable[[], Assets]],
    pod_place: Place,
) -> Callable[[bool], tuple[Callable[[], Assets], Callable[[], Assets]]]:
    """Gives what pods with ``--kernel`` are started from, and those with ``--baseline-kernel``."""
    settings = claims_session(request.config).settings
    new, baseline = settings.new_kernel, settings.baseline_kernel
    new_for = assets_for(rootfs_for, new, pod_place)
    baseline_for = assets_for(rootfs_for, baseline, pod_place) if baseline else pod_assets_for
    return lambda uses_tools: (new_for(uses_tools), baseline_for(uses_tools))


@pytest.fixture
def kernels(request: pytest.FixtureRequest, vperf_run: Run, scope: Scope) -> Kernels:
    """Machines with ``--kernel`` and ``--baseline-kernel``: ``kernels.new.start()``, ``kernels.baseline.start()``.

    A test is parametrized with the kinds of machines, such as ``pod.kvm`` or ``guest.kvm``; without it, pods with the
    quickest accelerator that works.
    """
    from pytest_vperf.targets.kernel.pair import Kernels, NotNamed

    kind = getattr(request, "param", "pod.auto")
    if claims_session(request.config).settings.new_kernel is None:
        return Kernels(kind, lambda _: NotNamed(kind), lambda _: NotNamed(kind), scope)
    machine, _, accelerator = kind.partition(".")
    makers = {"pod": _pods, "guest": _guests}
    if machine not in makers:
        raise pytest.UsageError(
            f"the fixture 'kernels' knows pods and guests, not {kind!r}: e.g. 'pod.kvm', 'guest.kvm'"
        )
    new, baseline = makers[machine](request, accelerator, vperf_run)
    return Kernels(kind, new, baseline, scope)


def _pods(request: pytest.FixtureRequest, accelerator: str, run: Run) -> tuple[Maker, Maker]:
    usual: Callable[[], Assets] = request.getfixturevalue("pod_assets")
    both = request.getfixturevalue("compared_assets_for")(uses_tools(request))
    if uses_tools(request):
        for make in both:
            prepare(make)
    timeout = claims_session(request.config).settings.start_timeout
    place: Place = request.getfixturevalue("pod_place")

    def with_kernel(assets: Callable[[], Assets]) -> Maker:
        from pytest_vperf.targets.pod.pods import Pods

        # The accelerator is tried with the usual kernel: where that boots and this one does not, it is this one's.
        return lambda owner: Pods(
            assets,
            run,
            owner,
            accelerator=accelerator,
            timeout=timeout,
            probed=usual,
            place=place,
        )

    return with_kernel(both[0]), with_kernel(both[1])


def _guests(request: pytest.FixtureRequest, accelerator: str, _: Run) -> tuple[Maker, Maker]:
    from pytest_vperf.targets.kernel.guest_kernel import from_file

    settings = claims_session(request.config).settings
    usual: Callable[[], GuestKernel] = request.getfixturevalue("guest_kernel")
    like: Callable[[str], Guests] = request.getfixturevalue("guests_on")

    def with_kernel(file: Path | None) -> Maker:
        kernel = (lambda: from_file(file)) if file else usual
        return lambda owner: like(accelerator).owned_by(owner, kernel=kernel)

    return with_kernel(settings.new_kernel), with_kernel(settings.baseline_kernel)
