"""What gVisor costs a program, against runc, as gVisor's project and its users publish it."""

import pytest

pytestmark = pytest.mark.gallery

#: As in ../test_cpu.py and ../test_kernel.py: many short samples.
LITTLE_WORK = {"max_prime": 20_000, "events": 200}
LITTLE_MEMORY = {"block_size": "64 KiB", "total_size": "1 GiB"}
SHORT = {"time": 0.1, "warmup": 0.05}


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


def test_a_system_call_takes_a_hundred_times_as_long(claim, pair, syscalls):
    proven = claim("gallery.ant.calls.hundredfold")
    gvisor, runc = pair()
    proven.near(
        lambda: syscalls.run(runc, **SHORT).rate, to=lambda: syscalls.run(gvisor, **SHORT).rate
    )
