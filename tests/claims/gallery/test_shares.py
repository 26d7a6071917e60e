"""How engines and machines share the processor, as projects publish it.

Everything wants one processor and never waits. A share is of what the contestants got together within a window, so
that another load on that processor takes from all of them alike.
"""

import os
import time

import pytest

from pytest_vperf import Quantity, Unavailable

pytestmark = [pytest.mark.gallery, pytest.mark.priority]

WINDOW = 0.5
BUSY = ("sh", "-c", "while :; do :; done")
TWICE_BUSY = ("sh", "-c", "while :; do :; done & while :; do :; done")
#: The weights of Docker's example.
HEAVY, LIGHT = 1024, 512


def used(targets):
    """What each uses of a processor within a window, in CPUs."""
    began, before = time.monotonic(), [target.usage().cpu_time for target in targets]
    time.sleep(WINDOW)
    ended, after = time.monotonic(), [target.usage().cpu_time for target in targets]
    return [(late - early) / (ended - began) for early, late in zip(before, after, strict=True)]


def share(targets, number):
    """What one of them uses of what all of them use, in %."""
    each = used(targets)
    of_a_processor = {f"rival_{k}": Quantity(100 * own, "%") for k, own in enumerate(each, 1)}
    return Quantity(100 * each[number] / sum(each), "%").with_extra(**of_a_processor)


def of_a_processor(target):
    return Quantity(100 * used([target])[0], "%")


@pytest.mark.parametrize(
    ("name", "weights", "number"),
    [
        ("half", (HEAVY, LIGHT, LIGHT), 0),
        ("quarter", (HEAVY, LIGHT, LIGHT), 1),
        ("third", (HEAVY, LIGHT, LIGHT, HEAVY), 0),
        ("sixth", (HEAVY, LIGHT, LIGHT, HEAVY), 1),
    ],
)
def test_docker_shares_a_processor_by_weight(claim, containers_with, name, weights, number):
    proven = claim(f"gallery.docker.shares.{name}")
    runc = containers_with("runc")
    rivals = [runc.start(BUSY, cpuset="0", cpu_shares=weight) for weight in weights]
    proven.holds(lambda: share(rivals, number))


def test_a_light_container_alone_uses_what_is_free(claim, containers_with):
    proven = claim("gallery.docker.shares.alone")
    alone = containers_with("runc").start(BUSY, cpuset="0", cpu_shares=2)
    proven.holds(lambda: of_a_processor(alone))


def test_half_a_processor_is_half(claim, containers_with):
    proven = claim("gallery.docker.cpus.half")
    half = containers_with("runc").start(BUSY, cpuset="0", cpus=0.5)
    proven.holds(lambda: of_a_processor(half))


def test_one_and_a_half_processors_are_not_exceeded(claim, containers_with):
    proven = claim("gallery.docker.cpus.one_and_a_half")
    if len(os.sched_getaffinity(0)) < 2:
        raise Unavailable("there is only one processor here", target="host")
    limited = containers_with("runc").start(TWICE_BUSY, cpus=1.5)
    proven.holds(lambda: of_a_processor(limited))
