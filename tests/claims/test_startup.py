"""How fast targets start: claims S1 and S2, and the start of a container for each runtime.

A start is timed on the host's monotonic clock, from the request until the container's process runs; images,
kernels and disks are made before, and readiness is pushed by what starts. `pytest_vperf.targets.pod.machine`
defines the phases of a pod's start, `pytest_vperf.targets.container.containers` those of a container's.
"""

import pytest

pytestmark = pytest.mark.startup


@pytest.mark.parametrize("firmware", ["qboot", "seabios"])
@pytest.mark.parametrize("pods", ["kvm", "tcg"], indirect=True)
def test_pod_starts_in_time(claim, pods, firmware):
    claim(f"startup.pod.{pods.accelerator}.{firmware}").holds(
        lambda: pods.start(firmware=firmware).startup_time
    )


@pytest.mark.parametrize("firmware", ["qboot", "seabios"])
@pytest.mark.parametrize("pods", ["kvm", "tcg"], indirect=True)
def test_nine_of_ten_pods_start_in_time(claim, pods, firmware):
    claim(f"startup.pod.{pods.accelerator}.{firmware}.p90").holds(
        lambda: pods.start(firmware=firmware).startup_time
    )


@pytest.mark.parametrize("pods", ["xen"], indirect=True)
def test_pod_on_xen_starts_in_time(claim, pods):
    claim("startup.pod.xen").holds(lambda: pods.start().startup_time)


@pytest.mark.parametrize("pods", ["xen"], indirect=True)
def test_nine_of_ten_pods_on_xen_start_in_time(claim, pods):
    claim("startup.pod.xen.p90").holds(lambda: pods.start().startup_time)


def test_container_starts_in_time(claim, containers):
    """A runtime that starts a machine for each container makes pods: ``startup.pod.kata-runtime``."""
    claim(f"startup.{containers.kind}.{containers.runtime}").holds(
        lambda: containers.start().startup_time
    )


@pytest.mark.parametrize("pods", ["kvm", "tcg"], indirect=True)
def test_qboot_starts_before_seabios(claim, pods):
    claim(f"startup.order.{pods.accelerator}.qboot_before_seabios").compares(
        lambda: pods.start(firmware="qboot").startup_time,
        to=lambda: pods.start(firmware="seabios").startup_time,
    )


@pytest.mark.parametrize("firmware", ["qboot", "seabios"])
def test_kvm_starts_before_tcg(claim, pods_on, firmware):
    kvm, tcg = pods_on("kvm"), pods_on("tcg")
    claim(f"startup.order.kvm_before_tcg.{firmware}").compares(
        lambda: kvm.start(firmware=firmware).startup_time,
        to=lambda: tcg.start(firmware=firmware).startup_time,
    )


def test_tcg_starts_before_xen(claim, pods_on):
    tcg, xen = pods_on("tcg"), pods_on("xen")
    claim("startup.order.tcg_before_xen").compares(
        lambda: tcg.start(firmware="seabios").startup_time,
        to=lambda: xen.start().startup_time,
    )
