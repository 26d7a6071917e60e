"""How fast containers start and end, as projects publish it of themselves and of each other.

Runtimes are called without an engine where the sentence is about the runtime (`pytest_vperf.targets.oci.runtime`),
and through Docker where it is about Docker. Source, procedure and deviations of each: thresholds/gallery.yaml.
"""

import pytest

from pytest_vperf import Quantity

pytestmark = [pytest.mark.gallery, pytest.mark.startup]

#: Containers in a row, of the published 100, so that a pair takes a second.
TIMES = 10


def test_crun_takes_half_the_time_of_runc(claim, oci):
    claim("gallery.crun.run").compares(
        lambda: oci("crun").run(times=TIMES).duration,
        to=lambda: oci("runc").run(times=TIMES).duration,
    )


def test_crun_takes_half_the_cpu_time_of_runc(claim, oci):
    claim("gallery.crun.run.cpu_time").compares(
        lambda: oci("crun").run(times=TIMES).cpu_time,
        to=lambda: oci("runc").run(times=TIMES).cpu_time,
    )


@pytest.mark.parametrize("network", ["shared_network", "own_network"])
def test_crun_takes_half_the_time_of_runc_by_network(claim, oci, network):
    own = network == "own_network"
    claim(f"gallery.crun.run.{network}").compares(
        lambda: oci("crun").run(network=own, times=TIMES).duration,
        to=lambda: oci("runc").run(network=own, times=TIMES).duration,
    )


def test_crun_creates_starts_and_deletes_before_runc(claim, oci):
    claim("gallery.youki.cycle.crun_before_runc").compares(
        lambda: oci("crun").cycle().duration, to=lambda: oci("runc").cycle().duration
    )


def test_youki_is_twice_as_fast_as_runc(claim, oci):
    claim("gallery.youki.cycle.youki_over_runc").compares(
        lambda: oci("youki").cycle().duration, to=lambda: oci("runc").cycle().duration
    )


def test_crun_is_twice_as_fast_as_youki(claim, oci):
    claim("gallery.youki.cycle.crun_over_youki").compares(
        lambda: oci("crun").cycle().duration, to=lambda: oci("youki").cycle().duration
    )


def test_crun_starts_in_the_background_before_runc(claim, oci):
    claim("gallery.runk.detached.crun_before_runc").compares(
        lambda: oci("crun").detached().duration, to=lambda: oci("runc").detached().duration
    )


def test_a_process_takes_a_millisecond(claim, native):
    claim("gallery.lightvm.process").holds(lambda: process(native))


def test_runc_alone_is_faster_than_docker(claim, oci, containers_with):
    claim("gallery.bucketbench.runc_before_docker").compares(
        lambda: oci("runc").cycle().duration,
        to=lambda: containers_with("runc").start().startup_time,
    )


def test_docker_is_two_orders_slower_than_a_process(claim, native, containers_with):
    claim("gallery.lightvm.docker").compares(
        lambda: process(native), to=lambda: containers_with("runc").start().startup_time
    )


def test_crun_is_the_fastest_through_an_engine(claim, containers_with):
    claim("gallery.podman.crun_is_fastest").compares(
        lambda: containers_with("crun").start().startup_time,
        to=lambda: containers_with("runc", beside="crun").start().startup_time,
    )


def test_runc_starts_before_gvisor(claim, containers_with):
    claim("gallery.quark.start.runc_before_gvisor").compares(
        lambda: containers_with("runc").start().startup_time,
        to=lambda: containers_with("runsc").start().startup_time,
    )


def test_gvisor_starts_as_fast_as_runc(claim, containers_with):
    claim("gallery.gvisor.start.as_runc").near(
        lambda: containers_with("runsc").start().startup_time,
        to=lambda: containers_with("runc").start().startup_time,
    )


def process(native):
    """The time of a process that does nothing."""
    return Quantity(native.run(["/bin/true"]).duration, "s", direction="lower")
