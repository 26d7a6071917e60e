"""Many at once: claim S17.

The document has 100 Xen machines and 100 containers at the same work; ``--scale-count`` is another number, and a
published figure is judged with its hundred alone. All begin behind one barrier (`pytest_vperf.workloads.at_once`).
What is sampled is the mean of all for a time, and the sum of all for a throughput; the record has each one's figure,
how fairly they shared (Jain's index) and who was left behind, and the terminal shows it below the claims.

How much work sysbench did, with which blocks, the document does not say. Its disks were 100 partitions of 4 GB; here
they are loop devices of 16 MiB, written and read past the page cache, the first second left out.
"""

import pytest

from pytest_vperf import FioJob, Iperf3Tcp, SysbenchCpu, SysbenchMemory, Unavailable

pytestmark = [pytest.mark.scale, pytest.mark.slow, pytest.mark.vperf(budget="10 min")]

PUBLISHED_COUNT = 100
#: A quarter of a second alone: a hundred take long enough on any machine for all to run at once.
CPU = SysbenchCpu(max_prime=20_000, events=200)
#: Of a pod, and with it what QEMU takes.
POD_MEMORY, POD_BYTES = "256 MiB", 456 * 2**20
OPERATIONS = ["read", "write"]
ACCESSES = ["seq", "rnd"]
JOBS = [("randread", 128), ("randwrite", 128), ("randread", 4), ("randwrite", 4)]
DISK = "16 MiB"
#: The document's host had file systems ("host 100 fs IO test"): one for each file of the same size.
WITH_FILES, FILE = "24 MiB", 16 << 20


def total_time(result):
    return result.total_time


def throughput(result):
    return result.throughput


def memory(operation, access):
    return SysbenchMemory("64 KiB", "1 GiB", operation, access=access)


def judged_with(proven, count):
    """A published figure of a hundred says nothing about another number of targets."""
    if proven.has_figure and count != PUBLISHED_COUNT:
        raise Unavailable(
            f"the published figure is of {PUBLISHED_COUNT} targets at once, not of {count}",
            remedy=f"--scale-count={PUBLISHED_COUNT}, on a machine that carries them",
        )


@pytest.fixture
def many_containers(crowds, containers):
    """Starts containers, for a claim."""

    def start(proven, **options):
        judged_with(proven, crowds.count)
        return crowds.start(lambda: containers.start(**options))

    return start


@pytest.fixture
def many_pods(crowds, native, pods):
    """Starts as many pods as there is memory for, for a claim."""

    def start(proven, **options):
        count = crowds.fitting(native, each=POD_BYTES)
        judged_with(proven, count)
        if not count:
            raise Unavailable("there is no memory for a pod", remedy="end what else takes it")
        return crowds.start(lambda: pods.start(memory=POD_MEMORY, **options), count)

    return start


@pytest.fixture
def many_domus(crowds, domus):
    """Starts Xen machines, for a claim; each with a disk of its own where there are disks."""

    def start(proven, disks=(), **options):
        judged_with(proven, crowds.count)
        size, waiting = domus.memory_each(crowds.count, "1 GiB"), list(disks)

        def one():
            own = [waiting.pop()] if disks else []
            return domus.start(vcpus=1, memory=size, disks=own, **options)

        return crowds.start(one)

    return start


def test_primes_in_many_containers(claim, containers, many_containers):
    proven = claim(f"scale.sysbench.cpu.container.{containers.runtime}")
    crowd = many_containers(proven)
    proven.holds(lambda: crowd.sample(CPU, total_time, of_all="mean"))


@pytest.mark.parametrize("pods", ["kvm", "tcg"], indirect=True)
def test_primes_in_many_pods(claim, pods, many_pods):
    proven = claim(f"scale.sysbench.cpu.pod.{pods.accelerator}")
    crowd = many_pods(proven)
    proven.holds(lambda: crowd.sample(CPU, total_time, of_all="mean"))


def test_primes_in_many_xen_machines(claim, many_domus):
    proven = claim("scale.sysbench.cpu.domu")
    crowd = many_domus(proven)
    proven.holds(lambda: crowd.sample(CPU, total_time, of_all="mean"))


def test_many_xen_machines_compute_as_containers_do(claim, containers, many_domus, many_containers):
    proven = claim(f"scale.sysbench.cpu.domu_over_container.{containers.runtime}")
    machines, boxes = many_domus(proven), many_containers(proven)
    proven.compares(
        lambda: machines.sample(CPU, total_time, of_all="mean"),
        to=lambda: boxes.sample(CPU, total_time, of_all="mean"),
    )


@pytest.mark.parametrize("access", ACCESSES)
@pytest.mark.parametrize("operation", OPERATIONS)
def test_blocks_in_many_containers(claim, containers, many_containers, operation, access):
    proven = claim(f"scale.sysbench.{operation}.{access}.container.{containers.runtime}")
    crowd, work = many_containers(proven), memory(operation, access)
    proven.holds(lambda: crowd.sample(work, throughput, of_all="sum"))


@pytest.mark.parametrize("access", ACCESSES)
@pytest.mark.parametrize("operation", OPERATIONS)
@pytest.mark.parametrize("pods", ["kvm", "tcg"], indirect=True)
def test_blocks_in_many_pods(claim, pods, many_pods, operation, access):
    proven = claim(f"scale.sysbench.{operation}.{access}.pod.{pods.accelerator}")
    crowd, work = many_pods(proven), memory(operation, access)
    proven.holds(lambda: crowd.sample(work, throughput, of_all="sum"))


@pytest.mark.parametrize("access", ACCESSES)
@pytest.mark.parametrize("operation", OPERATIONS)
def test_blocks_in_many_xen_machines(claim, many_domus, operation, access):
    proven = claim(f"scale.sysbench.{operation}.{access}.domu")
    crowd, work = many_domus(proven), memory(operation, access)
    proven.holds(lambda: crowd.sample(work, throughput, of_all="sum"))


@pytest.mark.parametrize("access", ACCESSES)
@pytest.mark.parametrize("operation", OPERATIONS)
def test_many_xen_machines_move_blocks_as_containers_do(
    claim, containers, many_domus, many_containers, operation, access
):
    proven = claim(f"scale.sysbench.{operation}.{access}.domu_over_container.{containers.runtime}")
    machines, boxes = many_domus(proven), many_containers(proven)
    work = memory(operation, access)
    proven.compares(
        lambda: machines.sample(work, throughput, of_all="sum"),
        to=lambda: boxes.sample(work, throughput, of_all="sum"),
    )


def on_disks(crowd, disks, job, kib):
    """Takes a sample of a crowd whose every member has a disk, or a file in the disk's file system."""
    works = [
        FioJob(
            job,
            "" if disk.formatted else disk.where(member),
            directory=disk.where(member) if disk.formatted else "",
            size=FILE if disk.formatted else None,
            block_size=kib * 1024,
            runtime=2.0,
            ramp_time=1.0,
        )
        for member, disk in zip(crowd.members, disks, strict=True)
    ]
    direction = job.removeprefix("rand")
    return lambda: crowd.sample(
        works, lambda result: getattr(result, direction).bandwidth, of_all="sum"
    )


@pytest.mark.parametrize(("job", "kib"), JOBS)
def test_many_disks_of_the_host(claim, native, crowds, disks, job, kib):
    proven = claim(f"scale.fio.{job}_{kib}k.host")
    judged_with(proven, crowds.count)
    made = [disks.make(WITH_FILES, format="ext4") for _ in range(crowds.count)]
    proven.holds(on_disks(crowds.of([native] * len(made)), made, job, kib))


@pytest.mark.parametrize(("job", "kib"), JOBS)
def test_disks_in_many_xen_machines(claim, domus, crowds, many_domus, job, kib):
    proven = claim(f"scale.fio.{job}_{kib}k.domu")
    judged_with(proven, crowds.count)
    machines = many_domus(proven, [domus.disks.make(DISK) for _ in range(crowds.count)])
    own = [member.disks[0] for member in machines.members]
    proven.holds(on_disks(machines, own, job, kib))


@pytest.mark.parametrize(("job", "kib"), JOBS)
def test_disks_of_many_xen_machines_are_as_good(claim, domus, crowds, many_domus, job, kib):
    proven = claim(f"scale.fio.{job}_{kib}k.domu_over_host")
    judged_with(proven, crowds.count)
    machines = many_domus(proven, [domus.disks.make(DISK) for _ in range(crowds.count)])
    made = [domus.disks.make(WITH_FILES, format="ext4") for _ in range(crowds.count)]
    own = [member.disks[0] for member in machines.members]
    proven.near(
        on_disks(machines, own, job, kib),
        to=on_disks(crowds.of([domus.host] * len(made)), made, job, kib),
    )


def to_servers(crowds, client, servers):
    """Takes a sample of a crowd of clients, one for each server.

    For ten seconds: of a hundred on two processors, one that was to send for 3 s was seen to receive for 1.4 s only.
    """
    clients = crowds.of([client] * len(servers))
    works = [
        Iperf3Tcp(server.address_for(client), server.port, time=10, omit=1) for server in servers
    ]
    return lambda: clients.sample(works, throughput, of_all="sum")


def test_network_of_many_containers(
    claim, containers, network, other_host, crowds, many_containers, iperf3
):
    proven = claim(f"scale.iperf3.container.{containers.runtime}")
    crowd = many_containers(proven, network=network)
    with crowd.serving(iperf3.serve) as servers:
        proven.holds(to_servers(crowds, other_host, servers))


@pytest.mark.parametrize("pods", ["kvm", "tcg"], indirect=True)
def test_network_of_many_pods(claim, pods, network, other_host, crowds, many_pods, iperf3):
    proven = claim(f"scale.iperf3.pod.{pods.accelerator}")
    crowd = many_pods(proven, network=network)
    with crowd.serving(iperf3.serve) as servers:
        proven.holds(to_servers(crowds, other_host, servers))


def test_network_of_many_xen_machines(claim, domus, crowds, many_domus, iperf3):
    proven = claim("scale.iperf3.domu")
    client = domus.other_host()
    crowd = many_domus(proven, network=domus.network)
    with crowd.serving(iperf3.serve) as servers:
        proven.holds(to_servers(crowds, client, servers))


def test_many_xen_machines_have_the_better_network(
    claim,
    containers,
    domus,
    network,
    other_host,
    crowds,
    many_domus,
    many_containers,
    iperf3,
):
    proven = claim(f"scale.iperf3.domu_over_container.{containers.runtime}")
    client = domus.other_host()
    machines = many_domus(proven, network=domus.network)
    boxes = many_containers(proven, network=network)
    with machines.serving(iperf3.serve) as far, boxes.serving(iperf3.serve) as near:
        proven.compares(to_servers(crowds, client, far), to=to_servers(crowds, other_host, near))
