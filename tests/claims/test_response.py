"""How soon targets answer: claim S19.

netperf's TCP_RR, requests and responses of 128 bytes, one at a time: netserver in a target with one processor and
1 GiB (less where its host has less, as the record says), netperf on another host. The document's run takes 120 s;
here a sample is 1 s, and there are many. Three conditions (`pytest_vperf.workloads.loaded`): nothing else runs; the
system is loaded by targets of the same kind, with together as many busy loops as it has processors; and the target
that answers is loaded, too.

A rate is sampled where a figure is published for a machine, and the time of a request, which is one over it, where
targets are compared. In a comparison both ends of each arm are on the same machine, the loaders are the same for both
arms, and the load of a target is there only while that target answers.

Systems that cannot be started here (ESXi, XenServer, Hyper-V, OpenVZ) are measured in machines that --vperf-machine
names (docs/machines.md).
"""

import re

import pytest

from pytest_vperf import CONDITIONS, MOST_LOADERS, memory_each

pytestmark = [
    pytest.mark.response,
    pytest.mark.vperf(budget="3 min"),
    pytest.mark.parametrize("condition", CONDITIONS),
]

#: Seconds of a sample.
TIME = 1
#: The document's: 1 virtual CPU, 1 GB.
MEMORY = "1 GiB"
MACHINES = MOST_LOADERS + 1


@pytest.fixture
def one_cpu(native):
    """One virtual CPU: of a container that is one of the host's, the first that may be used."""
    return {"cpuset": str(allowed(native)[0])}


@pytest.fixture
def answers(netperf):
    """One test: ``answers(client, server)``."""
    clients = {}

    def answer(client, server):
        if client.name not in clients:
            clients[client.name] = not_the_first_processor(client)
        return netperf.tcp_rr(client, to=server, time=TIME, cpu=clients[client.name])

    return answer


def not_the_first_processor(target):
    """The last one that it may run on, or ``None`` where that is the first: who answers has the first one.

    A client that is left to itself is now on one processor with who answers and now not, and there a request takes a
    tenth of the time (docs/load.md). The document's client was a machine of its own.
    """
    numbers = allowed(target)
    return numbers[-1] if numbers[-1] != numbers[0] else None


def allowed(target):
    """The numbers of the processors that it may run on: the first one of each range and the last one."""
    line = target.run(["grep", "Cpus_allowed_list", "/proc/self/status"]).text
    return [int(number) for number in re.findall(r"[0-9]+", line)]


def test_the_host_answers(
    claim, native, limited_host, other_host, one_cpu, netperf, answers, loaded, condition
):
    proven = claim(f"response.{condition}.host")
    native = limited_host(**one_cpu)
    under = loaded(condition, on=native)
    with netperf.serve(native) as server:
        proven.holds(under.during(native, lambda: answers(other_host, server).transactions))


def test_a_container_answers(
    claim, native, containers, network, other_host, one_cpu, netperf, answers, loaded, condition
):
    proven = claim(f"response.{condition}.container.{containers.runtime}")
    container = containers.start(network=network, memory=MEMORY, **one_cpu)
    under = loaded(condition, by=lambda vcpus: containers.start(memory=MEMORY), on=native)
    with netperf.serve(container) as server:
        proven.holds(under.during(container, lambda: answers(other_host, server).transactions))


@pytest.mark.parametrize("pods", ["kvm", "tcg"], indirect=True)
def test_a_pod_answers(
    claim, native, pods, network, other_host, netperf, answers, loaded, condition
):
    proven = claim(f"response.{condition}.pod.{pods.accelerator}")
    memory = memory_each(native, MACHINES, MEMORY)
    pod = pods.start(network=network, memory=memory)
    under = loaded(condition, by=lambda vcpus: pods.start(vcpus=vcpus, memory=memory), on=native)
    with netperf.serve(pod) as server:
        proven.holds(under.during(pod, lambda: answers(other_host, server).transactions))


def test_a_guest_answers(claim, guests, netperf, answers, loaded, condition):
    proven = claim(f"response.{condition}.guest.{guests.accelerator}")
    client, memory = guests.other_host(), guests.memory_each(MACHINES, MEMORY)
    guest = guests.start(network=guests.network, memory=memory)
    under = loaded(condition, by=loader(guests, memory), on=guests.host, cpus=guests.cpus)
    with netperf.serve(guest) as server:
        proven.holds(under.during(guest, lambda: answers(client, server).transactions))


def test_a_xen_machine_answers(claim, domus, netperf, answers, loaded, condition):
    proven = claim(f"response.{condition}.domu")
    client, memory = domus.other_host(), domus.memory_each(MACHINES, MEMORY)
    domu = domus.start(network=domus.network, memory=memory)
    under = loaded(condition, by=loader(domus, memory), on=domus.host, cpus=domus.cpus)
    with netperf.serve(domu) as server:
        proven.holds(under.during(domu, lambda: answers(client, server).transactions))


def test_a_container_answers_as_the_host(
    claim,
    native,
    limited_host,
    one_cpu,
    containers,
    network,
    other_host,
    netperf,
    answers,
    loaded,
    condition,
):
    proven = claim(f"response.{condition}.container_over_host.{containers.runtime}")
    # The same processor for both: what is compared is the container, and not where it may run.
    native = limited_host(**one_cpu)
    container = containers.start(network=network, memory=MEMORY, **one_cpu)
    under = loaded(condition, by=lambda vcpus: containers.start(memory=MEMORY), on=native)
    compared(proven, (container, other_host), (native, other_host), netperf, answers, under)


@pytest.mark.parametrize("pods", ["kvm", "tcg"], indirect=True)
def test_response_overhead_of_a_pod(
    claim,
    native,
    limited_host,
    pods,
    network,
    other_host,
    one_cpu,
    netperf,
    answers,
    loaded,
    condition,
):
    proven = claim(f"response.{condition}.pod_over_host.{pods.accelerator}")
    memory = memory_each(native, MACHINES, MEMORY)
    pod = pods.start(network=network, memory=memory)
    under = loaded(condition, by=lambda vcpus: pods.start(vcpus=vcpus, memory=memory), on=native)
    native = limited_host(**one_cpu)
    compared(proven, (pod, other_host), (native, other_host), netperf, answers, under)


def test_response_overhead_of_a_guest(claim, guests, netperf, answers, loaded, condition):
    proven = claim(f"response.{condition}.guest_over_host.{guests.accelerator}")
    added(proven, guests, netperf, answers, loaded, condition)


def test_response_overhead_of_a_xen_machine(claim, domus, netperf, answers, loaded, condition):
    proven = claim(f"response.{condition}.domu_over_host")
    added(proven, domus, netperf, answers, loaded, condition)


def added(proven, machines, netperf, answers, loaded, condition):
    client, memory = machines.other_host(), machines.memory_each(MACHINES, MEMORY)
    host = machines.host
    machine = machines.start(network=machines.network, memory=memory)
    under = loaded(condition, by=loader(machines, memory), on=host, cpus=machines.cpus)
    compared(proven, (machine, client), (host, client), netperf, answers, under)


def test_a_container_answers_before_a_guest(
    claim,
    native,
    containers,
    guests,
    network,
    other_host,
    one_cpu,
    netperf,
    answers,
    loaded,
    condition,
):
    # The document's machines have a processor's help: against one that is emulated it is another claim, an easy one.
    pair = containers.runtime
    if guests.accelerator != "kvm":
        pair += f".{guests.accelerator}"
    proven = claim(f"response.{condition}.container_over_guest.{pair}")
    guest = guests.start(network=guests.network, memory=guests.memory_each(MACHINES, MEMORY))
    compared(
        proven,
        (containers.start(network=network, memory=MEMORY, **one_cpu), other_host),
        (guest, guests.other_host()),
        netperf,
        answers,
        loaded(condition, by=lambda vcpus: containers.start(memory=MEMORY), on=native),
    )


def test_a_container_answers_before_a_xen_machine(
    claim,
    native,
    containers,
    domus,
    network,
    other_host,
    one_cpu,
    netperf,
    answers,
    loaded,
    condition,
):
    proven = claim(f"response.{condition}.container_over_domu.{containers.runtime}")
    domu = domus.start(network=domus.network, memory=domus.memory_each(MACHINES, MEMORY))
    compared(
        proven,
        (containers.start(network=network, memory=MEMORY, **one_cpu), other_host),
        (domu, domus.other_host()),
        netperf,
        answers,
        loaded(condition, by=lambda vcpus: containers.start(memory=MEMORY), on=native),
    )


def test_a_machine_answers(claim, machine, netperf, answers, loaded, condition):
    proven = claim(f"response.{condition}.machine.{machine.name}")
    target = machine.reach()
    client = machine.other_host(target)
    under = loaded(condition, machines=machine.loaders, on=None)
    with netperf.serve(target) as server:
        proven.holds(under.during(target, lambda: answers(client, server).transactions))


def test_response_overhead_of_a_machine(claim, machine, netperf, answers, loaded, condition):
    proven = claim(f"response.{condition}.machine_over_host.{machine.name}")
    target, host = machine.reach(), machine.host()
    client = machine.other_host(target)
    under = loaded(condition, machines=machine.loaders, on=host)
    compared(proven, (target, client), (host, client), netperf, answers, under)


@pytest.mark.parametrize("other", ["esxi", "xenserver", "hyperv"])
def test_a_container_of_openvz_answers_before_a_machine(
    claim, systems, netperf, answers, loaded, condition, other
):
    proven = claim(f"response.{condition}.machine_over_machine.openvz.{other}")
    openvz, theirs = systems("openvz"), systems(other)
    first, second = openvz.reach(), theirs.reach()
    first.check_alike(second)
    client = openvz.other_host(first)

    def loaders():
        return [*openvz.loaders(), *theirs.loaders()]

    under = loaded(condition, machines=loaders, on=None)
    compared(proven, (first, client), (second, client), netperf, answers, under)


def compared(proven, one, other, netperf, answers, under):
    """A target and its client against another one and its client, which may be on another bridge."""
    (first, near), (second, far) = one, other
    with netperf.serve(first) as here, netperf.serve(second) as there:
        proven.compares(
            under.during(first, lambda: answers(near, here).time),
            to=under.during(second, lambda: answers(far, there).time),
        )


def loader(machines, memory):
    """Starts a machine that does nothing but compute."""
    return lambda vcpus: machines.start(vcpus=vcpus, memory=memory, init="small")
