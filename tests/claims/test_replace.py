"""How fast a running pod's container is replaced by another one, the machine kept: claim S3.

Timed as a start is, on the host's monotonic clock: from the request until the new container's process runs.
`pytest_vperf.targets.pod.pod` defines the phases, and what comes after the clock.
"""

import pytest

pytestmark = pytest.mark.replace


@pytest.mark.parametrize("firmware", ["qboot", "seabios"])
@pytest.mark.parametrize("pods", ["kvm", "tcg"], indirect=True)
def test_container_is_replaced_in_time(claim, pods, rootfs, firmware):
    proven = claim(f"replace.pod.{pods.accelerator}.{firmware}")
    pod = pods.start(firmware=firmware, replaceable=True)
    proven.holds(lambda: pod.replace(rootfs()))


@pytest.mark.parametrize("pods", ["kvm"], indirect=True)
def test_nine_of_ten_containers_are_replaced_in_time(claim, pods, rootfs):
    proven = claim(f"replace.pod.{pods.accelerator}.qboot.p90")
    pod = pods.start(firmware="qboot", replaceable=True)
    proven.holds(lambda: pod.replace(rootfs()))


@pytest.mark.parametrize("pods", ["kvm", "tcg"], indirect=True)
def test_replacing_is_faster_than_starting(claim, pods, rootfs):
    proven = claim(f"replace.order.{pods.accelerator}.replace_before_start")
    pod = pods.start(firmware="qboot", replaceable=True)
    proven.compares(
        lambda: pod.replace(rootfs()),
        to=lambda: pods.start(firmware="qboot").startup_time,
    )
