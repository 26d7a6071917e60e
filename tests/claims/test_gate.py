"""How two builds differ: of an OCI runtime, a guest kernel, a QEMU, an image (the first half of claim S21).

None of these claims has a figure: head is no worse than base, see ``--claims-base`` and ``--claims-head``. Outside of
a gate they are not measured.

A start is sampled by starting. For the rest containers and machines run side by side and are replaced by fresh ones
after some samples, since two starts of one build may differ for as long as they last: `Starter.running`.
"""

import pytest

from pytest_vperf import Quantity, kernel_phase, on_loopback

pytestmark = pytest.mark.gate

MEMORY = "512 MiB"
#: Short samples meet the same noise on both sides; what starting a process leaves behind does not count.
SHORT = {"time": 0.1, "warmup": 0.05}
SHORT_JOB = {"runtime": "0.5 s", "ramp_time": "0.2 s"}
LITTLE_WORK = {"max_prime": 20_000, "events": 100}
LITTLE_MEMORY = {"block_size": "64 KiB", "total_size": "1 GiB"}


class OfEachKind:
    """The claims about targets of one kind, which a fixture ``starter`` starts; ``kind`` is its name in claims."""

    def test_starts_as_quickly(self, claim, starter, kind):
        claim(f"gate.startup.{kind}").holds(lambda: starter.start(memory=MEMORY).startup_time)

    def test_runs_a_command_as_quickly(self, claim, starter, kind):
        running = starter.running(memory=MEMORY)

        def latency():
            return Quantity(1e3 * running().run(["true"]).duration, "ms", direction="lower")

        claim(f"gate.exec.{kind}").holds(latency)

    def test_system_calls_are_as_quick(self, claim, starter, kind, syscalls):
        running = starter.running(memory=MEMORY)
        claim(f"gate.syscalls.{kind}").holds(lambda: syscalls.run(running(), **SHORT).rate)

    def test_context_switches_are_as_quick(self, claim, starter, kind, switches):
        running = starter.running(memory=MEMORY)
        claim(f"gate.switches.{kind}").holds(lambda: switches.run(running(), **SHORT).rate)

    def test_computing_is_as_quick(self, claim, starter, kind, sysbench):
        running = starter.running(memory=MEMORY)
        claim(f"gate.cpu.{kind}").holds(lambda: sysbench.cpu(running(), **LITTLE_WORK).total_time)

    def test_memory_is_as_quick(self, claim, starter, kind, sysbench):
        running = starter.running(memory=MEMORY)
        claim(f"gate.memory_speed.{kind}").holds(
            lambda: sysbench.memory(running(), **LITTLE_MEMORY).throughput
        )

    def test_a_disk_is_as_quick(self, claim, starter, kind, fio, disks):
        disk = disks.make("64 MiB")

        def rate():
            target = starter.start(memory=MEMORY, disks=[disk])
            return fio.randread(target, disk, block_size="4 KiB", **SHORT_JOB).bandwidth

        claim(f"gate.disk.{kind}").holds(rate)

    @pytest.fixture
    def plugged(self):
        """How a target is started that has an address."""
        return {}

    def test_requests_are_answered_as_quickly(self, claim, starter, kind, netperf, plugged):
        """Both ends are in one target: its kernel alone is on the way, and no card, bridge or host.

        They share a processor: on two, what another one takes to wake up from idle would be most of the time.
        """
        running = starter.running(memory=MEMORY, **plugged)

        def rate():
            ends = on_loopback(running())
            return netperf.tcp_rr(ends, to=ends, time=1, cpu=0, server_cpu=0).rate

        claim(f"gate.tcp_rr.{kind}").holds(rate)

    def test_as_much_is_sent(self, claim, starter, kind, iperf3, plugged):
        running = starter.running(memory=MEMORY, **plugged)

        def rate():
            ends = on_loopback(running())
            return iperf3.tcp(ends, to=ends, time=1, omit=0).throughput

        claim(f"gate.tcp.{kind}").holds(rate)

    def test_a_further_one_takes_no_more_memory(self, claim, starter, kind):
        """Of the host's memory, the part that the target's own control group accounts for."""

        def used():
            memory = starter.start(memory=MEMORY).usage().memory
            return Quantity(memory / 1024, "KiB", direction="lower")

        claim(f"gate.further.{kind}").holds(used)


class TestContainers(OfEachKind):
    @pytest.fixture
    def starter(self, containers):
        return containers

    @pytest.fixture
    def kind(self, containers):
        return f"{containers.kind}.{containers.runtime}"

    @pytest.fixture
    def plugged(self, network):
        """A container may not give itself an address."""
        return {"network": network}

    @pytest.mark.slow  # each sample is a search
    def test_starts_with_as_little_memory(self, claim, containers, kind):
        claim(f"gate.footprint.{kind}").holds(lambda: containers.least_memory().memory)


class OfMachines(OfEachKind):
    """The claims about machines, which have a kernel of their own."""

    def test_the_kernel_boots_as_quickly(self, claim, starter, kind):
        claim(f"gate.boot.{kind}").holds(lambda: kernel_phase(starter.start(memory=MEMORY)))

    def test_the_kernel_takes_no_more_memory(self, claim, starter, kind, bootmem):
        claim(f"gate.memory.{kind}").holds(
            lambda: bootmem.taken(starter.start(memory=MEMORY), of=MEMORY)
        )


class TestPods(OfMachines):
    @pytest.fixture
    def starter(self, pods):
        return pods

    @pytest.fixture
    def kind(self, pods):
        return f"pod.{pods.accelerator}"

    @pytest.mark.slow  # each sample is a search
    def test_starts_with_as_little_memory(self, claim, pods, kind, footprint):
        claim(f"gate.footprint.{kind}").holds(lambda: footprint.minimum_memory(pods).memory)


@pytest.mark.slow  # whole userspaces
class TestGuests(OfMachines):
    @pytest.fixture
    def starter(self, guests):
        return guests

    @pytest.fixture
    def kind(self, guests):
        return f"guest.{guests.accelerator}"
