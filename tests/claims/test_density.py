"""How many machines one host carries, and the memory of each: claims S4 and S5.

A host is filled with machines of 1 processor and 512 MiB until no more fit. How many ran is one number for each time
that it is filled, which takes minutes: a claim about it takes as many of them as any other claim takes samples, and
has an hour. Of the machines' memory each machine is a sample, and each session of the claim has a host filled anew.
The document's machines had a processor's help; those that QEMU emulates (``--vperf-accelerator=tcg`` for guests) are
measured, too: that more pods fit than machines, and have more memory free, is no matter of the processor.
"""

import pytest

pytestmark = [pytest.mark.density, pytest.mark.slow]

PODS = pytest.mark.parametrize("pods", ["kvm", "tcg"], indirect=True)
#: Orders need no whole host: so much memory is filled in turn with the one and the other.
PART_OF_A_HOST = "4 GiB"


def claimed(proven):
    """The least number of a claim that has one."""
    criterion = getattr(proven.threshold, "criterion", None)
    return getattr(criterion, "threshold", None)


OF_A_PROCESS = {"rss": lambda memory: memory.rss, "size": lambda memory: memory.size}
#: As the documents count, what is not free is used, caches too.
OF_A_MACHINE = {
    "total": lambda free: free.total,
    "used": lambda free: free.in_use,
    "free": lambda free: free.free,
}


@pytest.mark.vperf(budget="60 min")
@PODS
def test_a_host_carries_the_claimed_number_of_pods(claim, pods, density):
    proven = claim(f"density.count.pod.{pods.accelerator}")
    proven.holds(lambda: density(pods).capacity(at_least=claimed(proven)))


@pytest.mark.vperf(budget="60 min")
def test_a_host_carries_the_claimed_number_of_machines(claim, guests, density):
    proven = claim(f"density.count.guest.{guests.accelerator}")
    proven.holds(lambda: density(guests).capacity(at_least=claimed(proven)))


@PODS
@pytest.mark.parametrize("figure", OF_A_PROCESS)
def test_memory_of_a_pods_process(claim, pods, density, procmem, figure):
    proven = claim(f"density.procmem.{figure}.pod.{pods.accelerator}")
    filling = density(pods)
    proven.holds(lambda: OF_A_PROCESS[figure](procmem.of(filling.another().process)))


@pytest.mark.parametrize("figure", OF_A_PROCESS)
def test_memory_of_a_machines_process(claim, guests, density, procmem, figure):
    proven = claim(f"density.procmem.{figure}.guest.{guests.accelerator}")
    filling = density(guests)
    proven.holds(lambda: OF_A_PROCESS[figure](procmem.of(filling.another().process)))


@pytest.mark.parametrize("figure", OF_A_PROCESS)
@pytest.mark.parametrize("pods", ["kvm"], indirect=True)
def test_memory_of_nine_of_ten_pods_processes(claim, pods, density, procmem, figure):
    proven = claim(f"density.procmem.{figure}.pod.{pods.accelerator}.p90")
    filling = density(pods)
    proven.holds(lambda: OF_A_PROCESS[figure](procmem.of(filling.another().process)))


def test_memory_of_nine_of_ten_machines_processes(claim, guests_on, density, procmem):
    proven = claim("density.procmem.rss.guest.kvm.p90")
    filling = density(guests_on("kvm"))
    proven.holds(lambda: procmem.of(filling.another().process).rss)


@PODS
@pytest.mark.parametrize("figure", OF_A_MACHINE)
def test_memory_inside_a_pod(claim, pods, density, guestmem, figure):
    proven = claim(f"density.guestmem.{figure}.pod.{pods.accelerator}")
    filling = density(pods)
    proven.holds(lambda: OF_A_MACHINE[figure](guestmem.free(filling.another())))


@pytest.mark.parametrize("figure", OF_A_MACHINE)
def test_memory_inside_a_machine(claim, guests, density, guestmem, figure):
    proven = claim(f"density.guestmem.{figure}.guest.{guests.accelerator}")
    filling = density(guests)
    proven.holds(lambda: OF_A_MACHINE[figure](guestmem.free(filling.another())))


def test_memory_free_inside_nine_of_ten_machines(claim, guests_on, density, guestmem):
    proven = claim("density.guestmem.free.guest.kvm.p10")
    filling = density(guests_on("kvm"))
    proven.holds(lambda: guestmem.free(filling.another()).free)


@pytest.mark.vperf(budget="60 min")
@PODS
def test_more_pods_run_than_machines(claim, pods, guests_on, density):
    guests = guests_on(pods.accelerator)
    claim(f"density.count.pod_over_guest.{pods.accelerator}").compares(
        lambda: density(pods, budget=PART_OF_A_HOST).fits(),
        to=lambda: density(guests, budget=PART_OF_A_HOST).fits(),
    )


@PODS
def test_a_pod_has_more_memory_free(claim, pods, guests_on, guestmem):
    guests = guests_on(pods.accelerator)
    claim(f"density.guestmem.free.pod_over_guest.{pods.accelerator}").compares(
        lambda: guestmem.free(pods.start()).free, to=lambda: guestmem.free(guests.start()).free
    )
