"""Processor time by weight: claim S11.

Two targets do the same work, begun at the same instant by one process on the host's clock, without NTP and `at`.
Where they want the same processor, the one with twice the weight has two thirds of it until it is done; the other
one has done half of its work by then and has the processor to itself for the rest, so that it takes 4/3 of the time.
"""

import pytest

from pytest_vperf import Race, SysbenchCpu

pytestmark = pytest.mark.priority

#: About 2 s of work on a processor of this century.
EVENTS = 1500
WORK = SysbenchCpu(max_prime=20_000, events=EVENTS)
#: The document's machines have 4, as its node.
VCPUS = 4
#: The weights of the document, 100 and 50, in Linux' terms (cgroups(7), cpu.shares).
HEAVY, LIGHT = 1024, 512
PLACES = {"contended": ("0", "0"), "uncontended": ("0", "1")}


def total_time(result):
    return result.total_time


@pytest.mark.parametrize("how", PLACES)
def test_weights_of_containers(claim, containers, bench, how):
    proven = claim(f"priority.{how}.container.{containers.runtime}")
    first, second = PLACES[how]
    heavy = containers.start(cpuset=first, cpu_shares=HEAVY)
    light = containers.start(cpuset=second, cpu_shares=LIGHT)
    race = Race(bench, WORK, heavy, light, figure=total_time)
    proven.near(race.first, to=race.second)


@pytest.mark.slow
@pytest.mark.parametrize("how", PLACES)
@pytest.mark.parametrize("pods", ["kvm", "tcg"], indirect=True)
def test_weights_of_pods(claim, pods, bench, how):
    proven = claim(f"priority.{how}.pod.{pods.accelerator}")
    first, second = PLACES[how]
    heavy = pods.start(cpuset=first, cpu_shares=HEAVY)
    light = pods.start(cpuset=second, cpu_shares=LIGHT)
    race = Race(bench, WORK, heavy, light, figure=total_time)
    proven.near(race.first, to=race.second)


@pytest.mark.parametrize("how", PLACES)
def test_weights_of_machines(claim, guests, bench, how):
    proven = claim(f"priority.{how}.guest.{guests.accelerator}")
    first, second = PLACES[how]
    heavy = guests.start(cpuset=first, cpu_shares=HEAVY)
    light = guests.start(cpuset=second, cpu_shares=LIGHT)
    race = Race(bench, WORK, heavy, light, figure=total_time)
    proven.near(race.first, to=race.second)


@pytest.mark.parametrize("threads", [1, 4, 6])
def test_weights_of_machines_as_large_as_their_host(claim, guests, bench, threads):
    proven = claim(f"priority.threads_{threads}.guest.{guests.accelerator}")
    vcpus = min(VCPUS, guests.cpus)
    heavy = guests.start(vcpus=vcpus, cpuset=f"0-{vcpus - 1}", cpu_shares=HEAVY)
    light = guests.start(vcpus=vcpus, cpuset=f"0-{vcpus - 1}", cpu_shares=LIGHT)
    work = SysbenchCpu(WORK.max_prime, threads, EVENTS * threads)
    race = Race(bench, work, heavy, light, figure=total_time)
    proven.near(race.first, to=race.second)


@pytest.mark.parametrize("how", PLACES)
def test_weights_of_xen_machines(claim, domus, bench, how):
    proven = claim(f"priority.{how}.domu")
    first, second = PLACES[how]
    heavy = domus.start(cpuset=first, cpu_shares=HEAVY)
    light = domus.start(cpuset=second, cpu_shares=LIGHT)
    race = Race(bench, WORK, heavy, light, figure=total_time)
    proven.near(race.first, to=race.second)
