"""With how little memory containers start, and what their runtimes take, as projects publish it.

A search takes some 15 sizes, and five starts for each that works.
"""

import dataclasses

import pytest

pytestmark = [pytest.mark.gallery, pytest.mark.footprint, pytest.mark.vperf(budget="2 min")]


def least(runtime):
    return runtime.least_memory().memory


def need(runtime):
    """The same as a need, which the sentence is about: more is not worse."""
    return dataclasses.replace(least(runtime), direction="")


@pytest.mark.parametrize("limit", ["512_kib", "250_kib"])
def test_crun_starts_with_little_memory(claim, oci, limit):
    claim(f"gallery.crun.least.{limit}").holds(lambda: least(oci("crun")))


def test_runc_fails_where_crun_starts(claim, oci):
    claim("gallery.crun.least.runc_fails").holds(lambda: need(oci("runc")))


def test_crun_needs_less_memory_than_runc(claim, oci):
    claim("gallery.crun.least.order").compares(
        lambda: least(oci("crun")), to=lambda: least(oci("runc"))
    )


def test_runc_needs_megabytes(claim, oci):
    claim("gallery.podman.least.runc").holds(lambda: need(oci("runc")))


def test_crun_needs_less_than_a_megabyte(claim, oci):
    claim("gallery.podman.least.crun").holds(lambda: least(oci("crun")))


def test_docker_wants_six_megabytes(claim, containers_with):
    claim("gallery.docker.least").holds(
        lambda: containers_with("runc").least_memory(step="64 KiB", starts=1).memory
    )


def test_a_sandbox_adds_some_twenty_megabytes(claim, containers_with, procmem):
    claim("gallery.gvisor.density").holds(lambda: memory(containers_with("runsc"), procmem))


def test_a_sandbox_adds_more_memory_than_runc(claim, containers_with, procmem):
    claim("gallery.quark.density.runc_below_gvisor").compares(
        lambda: memory(containers_with("runc"), procmem),
        to=lambda: memory(containers_with("runsc"), procmem),
    )


def test_crun_takes_less_memory_than_runc(claim, oci):
    claim("gallery.runk.memory.crun_below_runc").compares(
        lambda: oci("crun").peak_memory(), to=lambda: oci("runc").peak_memory()
    )


def memory(containers, procmem):
    """What the process of a container, or its sandbox, adds to what the host uses."""
    return procmem.pss(containers.start().pid)
