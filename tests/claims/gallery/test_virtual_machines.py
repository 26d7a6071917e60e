"""What projects publish about virtual machines, as far as it is seen without KVM: an order, or a share."""

import time

import pytest

from pytest_vperf import Quantity, Unavailable

pytestmark = [pytest.mark.gallery, pytest.mark.vperf(budget="2 min")]

#: Seconds of a reading, and the weights of libvirt's text.
WINDOW = 2.0
HEAVY, LIGHT = 2048, 1024


@pytest.mark.startup
def test_qboot_starts_before_seabios(claim, pods_on):
    pods = pods_on("tcg")

    def in_firmware(name):
        startup = pods.start(firmware=name).startup_time
        firmware = startup.named_breakdown.get("firmware")
        if firmware is None:
            raise Unavailable("the kernel does not say when the firmware has ended")
        phase = (("firmware", firmware),)
        return Quantity(firmware, startup.unit, direction="lower", breakdown=phase)

    claim("gallery.qemu.qboot_before_seabios").compares(
        lambda: in_firmware("qboot"), to=lambda: in_firmware("seabios")
    )


@pytest.mark.priority
def test_libvirt_shares_a_processor_by_weight(claim, guests_on, cpuhog):
    proven = claim("gallery.libvirt.shares")
    guests = guests_on("tcg")
    heavy = guests.start(vcpus=1, cpuset="0", cpu_shares=HEAVY)
    light = guests.start(vcpus=1, cpuset="0", cpu_shares=LIGHT)

    def share():
        before = heavy.usage().cpu_time, light.usage().cpu_time
        time.sleep(WINDOW)
        after = heavy.usage().cpu_time, light.usage().cpu_time
        first, second = (late - early for early, late in zip(before, after, strict=True))
        return Quantity(100 * first / (first + second), "%").with_extra(
            heavy=Quantity(100 * first / WINDOW, "%"), light=Quantity(100 * second / WINDOW, "%")
        )

    with cpuhog.load(heavy), cpuhog.load(light):
        proven.holds(share)
