"""What another kernel does to the machines that boot it: the first half of claim S21.

``--vperf-kernel=FILE`` is the kernel in question, ``--baseline-kernel=FILE`` the one it is compared with; everything
else of the two machines is the same: hypervisor, image, bytes of every tool. Samples alternate, and the claim is that
the new kernel is no worse than the baseline by more than the tolerance.

A start is sampled by starting. For the rest machines run side by side and are replaced by fresh ones after some
samples, since two starts of one kernel may differ for as long as they last: `pytest_vperf.targets.kernel.pair`.
"""

import pytest

from pytest_vperf import kernel_phase, on_loopback

pytestmark = [
    pytest.mark.kernel,
    pytest.mark.parametrize("kernels", ["pod.kvm", "pod.tcg", "guest.kvm"], indirect=True),
]

MEMORY = "512 MiB"
#: Short samples meet the same noise in both machines; what starting a process leaves behind does not count.
SHORT = {"time": 0.1, "warmup": 0.05}
LITTLE_WORK = {"max_prime": 20_000, "events": 100}
LITTLE_MEMORY = {"block_size": "64 KiB", "total_size": "1 GiB"}


def test_the_kernel_boots_as_quickly(claim, kernels):
    claim(f"kernel.boot.{kernels.kind}").compares(
        lambda: kernel_phase(kernels.new.start(memory=MEMORY)),
        to=lambda: kernel_phase(kernels.baseline.start(memory=MEMORY)),
    )


def test_machines_start_as_quickly(claim, kernels):
    claim(f"kernel.startup.{kernels.kind}").compares(
        lambda: kernels.new.start(memory=MEMORY).startup_time,
        to=lambda: kernels.baseline.start(memory=MEMORY).startup_time,
    )


def test_the_kernel_takes_no_more_memory(claim, kernels, bootmem):
    claim(f"kernel.memory.{kernels.kind}").compares(
        lambda: bootmem.taken(kernels.new.start(memory=MEMORY), of=MEMORY),
        to=lambda: bootmem.taken(kernels.baseline.start(memory=MEMORY), of=MEMORY),
    )


def test_system_calls_are_as_quick(claim, kernels, syscalls):
    new, baseline = kernels.running(memory=MEMORY)
    claim(f"kernel.syscalls.{kernels.kind}").compares(
        lambda: syscalls.run(new(), **SHORT).rate,
        to=lambda: syscalls.run(baseline(), **SHORT).rate,
    )


def test_context_switches_are_as_quick(claim, kernels, switches):
    new, baseline = kernels.running(memory=MEMORY)
    claim(f"kernel.switches.{kernels.kind}").compares(
        lambda: switches.run(new(), **SHORT).rate,
        to=lambda: switches.run(baseline(), **SHORT).rate,
    )


def test_computing_is_as_quick(claim, kernels, sysbench):
    new, baseline = kernels.running(memory=MEMORY)
    claim(f"kernel.cpu.{kernels.kind}").compares(
        lambda: sysbench.cpu(new(), **LITTLE_WORK).total_time,
        to=lambda: sysbench.cpu(baseline(), **LITTLE_WORK).total_time,
    )


def test_memory_is_as_quick(claim, kernels, sysbench):
    new, baseline = kernels.running(memory=MEMORY)
    claim(f"kernel.memory_speed.{kernels.kind}").compares(
        lambda: sysbench.memory(new(), **LITTLE_MEMORY).throughput,
        to=lambda: sysbench.memory(baseline(), **LITTLE_MEMORY).throughput,
    )


def test_requests_are_answered_as_quickly(claim, kernels, netperf):
    """Both ends are in one machine: its kernel alone is on the way, and no card, bridge or host."""
    new, baseline = kernels.running(memory=MEMORY)

    def rate(machine):
        ends = on_loopback(machine)
        return netperf.tcp_rr(ends, to=ends, time=1).rate

    claim(f"kernel.tcp_rr.{kernels.kind}").compares(
        lambda: rate(new()), to=lambda: rate(baseline())
    )
