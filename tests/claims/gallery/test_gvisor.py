"""What gVisor costs a program, against runc, as gVisor's project and its users publish it."""

import pytest

pytestmark = pytest.mark.gallery

#: As in ../test_cpu.py and ../test_kernel.py: many short samples.
LITTLE_WORK = {"max_prime": 20_000, "events": 200}
LITTLE_MEMORY = {"block_size": "64 KiB", "total_size": "1 GiB"}
SHORT = {"time": 0.1, "warmup": 0.05}
IN_MEMORY = {
    "size": "32 MiB",
    "direct": False,
    "engine": "psync",
    "iodepth": 1,
    "runtime": "0.5 s",
    "ramp_time": "0 s",
}
ONE_SECOND = {"time": 1}


@pytest.fixture
def pair(containers_with):
    """A container with gVisor and one with runc, as a function: both stay for the whole claim."""

    def start():
        return containers_with("runsc").start(), containers_with("runc").start()

    return start


@pytest.mark.cpu
def test_the_processor_costs_nothing(claim, pair, sysbench):
    proven = claim("gallery.gvisor.cpu")
    gvisor, runc = pair()
    proven.near(
        lambda: sysbench.cpu(gvisor, **LITTLE_WORK).events_per_second,
        to=lambda: sysbench.cpu(runc, **LITTLE_WORK).events_per_second,
    )


@pytest.mark.memory
def test_memory_costs_nothing(claim, pair, sysbench):
    proven = claim("gallery.gvisor.memory")
    gvisor, runc = pair()
    proven.near(
        lambda: sysbench.memory(gvisor, **LITTLE_MEMORY).throughput,
        to=lambda: sysbench.memory(runc, **LITTLE_MEMORY).throughput,
    )


def test_a_system_call_takes_longer(claim, pair, syscalls):
    proven = claim("gallery.gvisor.calls.slower")
    gvisor, runc = pair()
    proven.compares(
        lambda: syscalls.run(runc, **SHORT).rate, to=lambda: syscalls.run(gvisor, **SHORT).rate
    )


@pytest.mark.parametrize("name", ["gvisor.calls.twentyfold", "ant.calls.hundredfold"])
def test_a_system_call_takes_many_times_as_long(claim, pair, syscalls, name):
    proven = claim(f"gallery.{name}")
    gvisor, runc = pair()
    proven.near(
        lambda: syscalls.run(runc, **SHORT).rate, to=lambda: syscalls.run(gvisor, **SHORT).rate
    )


@pytest.mark.disk
def test_reading_at_random_from_memory_is_slower(claim, pair, fio):
    proven = claim("gallery.gvisor.tmpfs.randread")
    gvisor, runc = pair()
    proven.compares(
        lambda: fio.randread(runc, "/dev/shm/", **IN_MEMORY).bandwidth,
        to=lambda: fio.randread(gvisor, "/dev/shm/", **IN_MEMORY).bandwidth,
    )


@pytest.mark.network
@pytest.mark.parametrize("way", ["received", "sent"])
def test_the_network_carries_less(claim, containers_with, network, other_host, iperf3, way):
    proven = claim(f"gallery.gvisor.network.{way}")
    both = [containers_with(runtime).start(network=network) for runtime in ("runc", "runsc")]
    if way == "received":
        with iperf3.serve(both[0]) as plain, iperf3.serve(both[1]) as sandbox:
            proven.compares(
                lambda: iperf3.tcp(other_host, to=plain, **ONE_SECOND).throughput,
                to=lambda: iperf3.tcp(other_host, to=sandbox, **ONE_SECOND).throughput,
            )
    else:
        with iperf3.serve(other_host) as server:
            proven.compares(
                lambda: iperf3.tcp(both[0], to=server, **ONE_SECOND).throughput,
                to=lambda: iperf3.tcp(both[1], to=server, **ONE_SECOND).throughput,
            )
